"""The part of PostgreSQL's protocol that replication needs, as bytes ↔ values.

Messages of the server are one letter, a length and a body. While changes stream, both sides send
copy data ('d'), whose first letter tells what is inside.
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
MOST_BYTES: Final = 1 << 30


class ProtocolError(Exception):
    """Bytes that no PostgreSQL server sends."""


class Message(NamedTuple):
    """One message of the server."""

    kind: bytes
    body: memoryview


@dataclass(frozen=True)
class ServerError:
    """What an error message of the server says."""

    code: str
    text: str
    detail: str


class Changes(NamedTuple):
    """A piece of the change stream, for the decoder of the plugin's output."""

    start: int
    end: int
    body: memoryview


class Keepalive(NamedTuple):
    """The server is alive, has sent everything up to here, and may want an answer."""

    end: int
    wants_answer: bool


class MessageReader:
    """Cuts what is received into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are whole now."""
        self._buffer += data
        ends: list[int] = []
        at = 0
        while len(self._buffer) - at >= _HEAD.size:
            _, size = _HEAD.unpack_from(self._buffer, at)
            if not 4 <= size <= MOST_BYTES:
                raise ProtocolError(f"a message of {size} bytes")
            if at + 1 + size > len(self._buffer):
                break
            at += 1 + size
            ends.append(at)
        whole = memoryview(bytes(self._buffer[:at]))
        del self._buffer[:at]
        starts = [0, *ends]
        return [
            Message(bytes(whole[start : start + 1]), whole[start + _HEAD.size : end])
            for start, end in zip(starts, ends, strict=False)
        ]


def startup(user: str, database: str, options: Mapping[str, str]) -> bytes:
    """The first message: who wants what, on a connection for logical replication."""
    settings = {"user": user, "database": database, "replication": "database", **options}
    body = b"".join(
        name.encode() + b"\0" + value.encode() + b"\0" for name, value in settings.items()
    )
    return struct.pack("!II", len(body) + 9, VERSION) + body + b"\0"


def message(kind: bytes, body: bytes) -> bytes:
    """A message of ours."""
    return _HEAD.pack(kind, len(body) + 4) + body


def query(statement: str) -> bytes:
    """A statement in the simple protocol, the only one that replication connections have."""
    return message(b"Q", statement.encode() + b"\0")


def password(text: str) -> bytes:
    """A password, or what stands for it."""
    return message(b"p", text.encode() + b"\0")


def sasl_begin(mechanism: str, first: bytes) -> bytes:
    """The mechanism that the client chose, and its first words."""
    body = mechanism.encode() + b"\0" + struct.pack("!I", len(first)) + first
    return message(b"p", body)


def sasl_continue(answer: bytes) -> bytes:
    """The client's next words."""
    return message(b"p", answer)


def md5_password(user: str, secret: str, salt: bytes) -> str:
    """The old way to prove a password without sending it."""
    inner = hashlib.md5((secret + user).encode(), usedforsecurity=False).hexdigest()
    return "md5" + hashlib.md5(inner.encode() + salt, usedforsecurity=False).hexdigest()


def parse_error(body: memoryview) -> ServerError:
    """The fields of an error: each a letter and a text."""
    fields = {
        part[:1]: part[1:].decode(errors="replace") for part in bytes(body).split(b"\0") if part
    }
    return ServerError(fields.get(b"C", ""), fields.get(b"M", ""), fields.get(b"D", ""))


def parse_row(body: memoryview) -> list[str | None]:
    """The values of a row, as text."""
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


def parse_copied(body: memoryview) -> Changes | Keepalive | None:
    """What copy data holds; None for what a later server may have invented."""
    kind = bytes(body[:1])
    try:
        if kind == b"w":
            _, start, end, _ = _XLOG_DATA.unpack_from(body)
            return Changes(start, end, body[_XLOG_DATA.size :])
        if kind == b"k":
            _, end, _, wants_answer = _KEEPALIVE.unpack_from(body)
            return Keepalive(end, wants_answer)
    except struct.error as error:
        raise ProtocolError(f"copy data that ends too early: {error}") from None
    return None


def status(written: int, flushed: int, now: datetime, *, ask: bool = False) -> bytes:
    """Tell the server how far we are: it keeps what comes after `flushed`."""
    micros = (now - EPOCH) // timedelta(microseconds=1)
    return message(b"d", _STATUS.pack(b"r", written, flushed, flushed, micros, ask))


def format_lsn(lsn: int) -> str:
    """A place in the server's log as the server writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """A place in the server's log from the server's way to write it."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
