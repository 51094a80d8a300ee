"""The part of PostgreSQL's frontend/backend protocol that replication needs, as bytes ↔ values.

A backend message is a letter for its kind, a length and a body. While changes stream, both sides send
CopyData ('d'), whose first letter is the kind of its content.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

VERSION: Final = 3 << 16
SSL_REQUEST: Final = struct.pack("!II", 8, 80877103)
EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_HEAD: Final = struct.Struct("!cI")
_XLOG_DATA: Final = struct.Struct("!cQQQ")
_KEEPALIVE: Final = struct.Struct("!cQQ?")
_STATUS: Final = struct.Struct("!cQQQq?")
MAX_MESSAGE_BYTES: Final = 1 << 30


class ReplicationProtocolError(Exception):
    """Bytes that violate PostgreSQL's replication protocol."""


class BackendMessage(NamedTuple):
    """A message of the server."""

    kind: bytes
    body: memoryview


@dataclass(frozen=True)
class ServerError:
    """The fields of an ErrorResponse."""

    code: str
    text: str
    detail: str


class XLogData(NamedTuple):
    """A piece of the change stream, to be decoded by `pgoutput.decode`."""

    start: int
    end: int
    body: memoryview


class Keepalive(NamedTuple):
    """The server has sent everything up to here, and may request a status update at once."""

    end: int
    wants_reply: bool


class MessageReader:
    """Splits the received bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[BackendMessage]:
        """Add received bytes; returns the messages that are complete."""
        self._buffer += data
        ends: list[int] = []
        at = 0
        while len(self._buffer) - at >= _HEAD.size:
            _, size = _HEAD.unpack_from(self._buffer, at)
            if not 4 <= size <= MAX_MESSAGE_BYTES:
                raise ReplicationProtocolError(f"invalid message length {size}")
            if at + 1 + size > len(self._buffer):
                break
            at += 1 + size
            ends.append(at)
        complete = memoryview(bytes(self._buffer[:at]))
        del self._buffer[:at]
        starts = [0, *ends]
        return [
            BackendMessage(bytes(complete[start : start + 1]), complete[start + _HEAD.size : end])
            for start, end in zip(starts, ends, strict=False)
        ]


def startup(user: str, database: str, options: Mapping[str, str]) -> bytes:
    """The StartupMessage of a connection for logical replication."""
    settings = {"user": user, "database": database, "replication": "database", **options}
    body = b"".join(
        name.encode() + b"\0" + value.encode() + b"\0" for name, value in settings.items()
    )
    return struct.pack("!II", len(body) + 9, VERSION) + body + b"\0"


def message(kind: bytes, body: bytes) -> bytes:
    """A frontend message of a kind."""
    return _HEAD.pack(kind, len(body) + 4) + body


def query(statement: str) -> bytes:
    """A Query: replication connections support the simple protocol only."""
    return message(b"Q", statement.encode() + b"\0")


def password(text: str) -> bytes:
    """A PasswordMessage, with the password or its MD5 hash."""
    return message(b"p", text.encode() + b"\0")


def sasl_begin(mechanism: str, first: bytes) -> bytes:
    """A SASLInitialResponse: the chosen mechanism and the client-first-message."""
    body = mechanism.encode() + b"\0" + struct.pack("!I", len(first)) + first
    return message(b"p", body)


def sasl_continue(response: bytes) -> bytes:
    return message(b"p", response)


def md5_password(user: str, secret: str, salt: bytes) -> str:
    """The hash for AuthenticationMD5Password, which servers before SCRAM require."""
    inner = hashlib.md5((secret + user).encode(), usedforsecurity=False).hexdigest()
    return "md5" + hashlib.md5(inner.encode() + salt, usedforsecurity=False).hexdigest()


def parse_error(body: memoryview) -> ServerError:
    fields = {
        part[:1]: part[1:].decode(errors="replace") for part in bytes(body).split(b"\0") if part
    }
    return ServerError(fields.get(b"C", ""), fields.get(b"M", ""), fields.get(b"D", ""))


def parse_row(body: memoryview) -> list[str | None]:
    """The values of a DataRow, as text."""
    (count,) = struct.unpack_from("!H", body)
    values: list[str | None] = []
    at = 2
    for _ in range(count):
        (size,) = struct.unpack_from("!i", body, at)
        at += 4
        if size < 0:
            values.append(None)
            continue
        values.append(bytes(body[at : at + size]).decode())
        at += size
    return values


def parse_copied(body: memoryview) -> XLogData | Keepalive | None:
    """The content of CopyData; None for a kind that only later servers have."""
    kind = bytes(body[:1])
    try:
        if kind == b"w":
            _, start, end, _ = _XLOG_DATA.unpack_from(body)
            return XLogData(start, end, body[_XLOG_DATA.size :])
        if kind == b"k":
            _, end, _, wants_reply = _KEEPALIVE.unpack_from(body)
            return Keepalive(end, wants_reply)
    except struct.error as error:
        raise ReplicationProtocolError(f"truncated CopyData: {error}") from None
    return None


def status(written: int, flushed: int, now: datetime, *, ask: bool = False) -> bytes:
    """A standby status update: the server keeps its WAL after `flushed` for the slot."""
    micros = (now - EPOCH) // timedelta(microseconds=1)
    return message(b"d", _STATUS.pack(b"r", written, flushed, flushed, micros, ask))


def format_lsn(lsn: int) -> str:
    """An LSN in PostgreSQL's notation, as in 16/B374D848."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
