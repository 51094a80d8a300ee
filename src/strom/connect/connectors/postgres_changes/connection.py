"""A replication connection: a blocking socket, for the one thread of its task."""

import contextlib
import socket
import ssl
import time
from datetime import UTC, datetime
from typing import Final

import scramp
from scramp.utils import saslprep

from strom.client.sasl import AuthenticationFailed, ScramExchange
from strom.connect.api import ConnectError, RetriableError
from strom.connect.connectors.databases.address import Address
from strom.connect.connectors.postgres_changes import protocol
from strom.connect.connectors.postgres_changes.continuity import RESET, SystemIdentity
from strom.connect.connectors.postgres_changes.protocol import (
    BackendMessage,
    Keepalive,
    MessageReader,
    ReplicationProtocolError,
    ServerError,
    XLogData,
)

_TIMEOUT_S: Final = 10.0
_RECEIVE_BYTES: Final = 1 << 18
_EXISTS: Final = "42710"
_AWAY: Final = ("08", "57", "53", "40", _EXISTS)
"""Classes of error codes that are retried; a slot that was just created is found by the retry."""
_SLOT_IN_USE: Final = "55006"
_NOT_READY: Final = "55000"
_NO_RIGHT: Final = "42501"
_NOT_ADMITTED: Final = "28000"
_UNKNOWN: Final = "42704"
_QUOTE: Final = '"'
_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-256-PLUS")


class _RejectedOverTls(ConnectError):
    """The server's pg_hba.conf does not admit this user over TLS; it may in plain text."""


class ReplicationConnection:
    """An authenticated connection in replication mode: commands first, then the change stream."""

    def __init__(self, address: Address, options: dict[str, str]) -> None:
        self._address = address
        try:
            self._connect(address.ssl, options)
        except _RejectedOverTls:
            # As libpq and asyncpg do: its lines for this user may all be `hostnossl`.
            self._connect("disable", options)

    def _connect(self, mode: str, options: dict[str, str]) -> None:
        address = self._address
        self._reader = MessageReader()
        self._waiting: list[BackendMessage] = []
        try:
            self._socket = socket.create_connection((address.host, address.port), _TIMEOUT_S)
        except OSError as error:
            raise RetriableError(f"{address} is unavailable: {error}") from error
        try:
            self._start_tls(mode)
            self._log_in(options)
        except BaseException:
            self.close()
            raise

    def _start_tls(self, mode: str) -> None:
        """`prefer` goes on in plain text only if the server itself says so.

        libpq does after a failed handshake too, which an attacker can bring about.
        """
        if mode in {"disable", "allow"}:
            return
        try:
            self._socket.sendall(protocol.SSL_REQUEST)
            # One byte alone: what follows it belongs to TLS, or was injected (CVE-2021-23222).
            offer = self._socket.recv(1)
            if offer == b"S":
                context = _tls_context(mode)
                self._socket = context.wrap_socket(self._socket, server_hostname=self._address.host)
                return
        except ssl.SSLCertVerificationError as error:
            raise ConnectError(
                f"{self._address}: sslmode={mode} does not accept the server's certificate: "
                f"{error.verify_message}."
            ) from None
        except ssl.SSLError as error:
            raise RetriableError(
                f"The TLS handshake with {self._address} failed: {error.reason or error}. If its TLS "
                "does not work, connect in plain text with sslmode=disable."
            ) from error
        except OSError as error:
            raise RetriableError(f"{self._address} is unavailable: {error}") from error
        if offer != b"N":
            raise RetriableError(
                f"{self._address} closed the connection, or is not a PostgreSQL server."
            )
        if mode != "prefer":
            raise ConnectError(f"{self._address} offers no TLS, which sslmode={mode} demands.")

    def _log_in(self, options: dict[str, str]) -> None:
        user = self._address.user or ""
        self._send(protocol.startup(user, self._address.database, options))
        scram: ScramExchange | None = None
        while (message := self._next_or_raise()).kind != b"Z":
            if message.kind != b"R":
                continue
            step = int.from_bytes(message.body[:4], "big")
            rest = bytes(message.body[4:])
            if step == 3:
                self._send(protocol.password(self._password))
            elif step == 5:
                self._send(protocol.password(protocol.md5_password(user, self._password, rest)))
            elif step == 10:
                scram = self._begin_scram(rest.decode("ascii", "replace").split("\0"))
            elif step in {11, 12} and scram is not None:
                self._continue_scram(scram, step, rest)
            elif step:
                raise ConnectError(f"{self._address} requires unsupported authentication {step}.")

    def _begin_scram(self, offered: list[str]) -> ScramExchange:
        known = [name for name in offered if name in _MECHANISMS]
        if not known:
            names = ", ".join(filter(None, offered))
            raise ConnectError(f"{self._address} offers only unsupported SASL mechanisms: {names}.")
        tls = self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        try:
            # PostgreSQL uses the user name of the startup message, and ignores the one of SCRAM.
            scram = ScramExchange(known, "", _prepared(self._password), tls)
        except AuthenticationFailed as error:
            raise ConnectError(f"{self._address}: {error}") from None
        self._send(protocol.sasl_begin(scram.mechanism, scram.first()))
        return scram

    def _continue_scram(self, scram: ScramExchange, step: int, message: bytes) -> None:
        try:
            if step == 11:
                self._send(protocol.sasl_continue(scram.respond(message)))
            else:
                scram.verify(message)
        except AuthenticationFailed as error:
            raise ConnectError(f"{self._address}: {error}") from None

    @property
    def _password(self) -> str:
        if self._address.password is None:
            raise ConnectError(f"{self._address} requires a password: set database.password.")
        return self._address.password

    def command(self, text: str) -> list[list[str | None]]:
        """Run a command of the replication protocol, and return its rows."""
        self._send(protocol.query(text))
        rows: list[list[str | None]] = []
        failure: ConnectError | None = None
        while (message := self._next()).kind != b"Z":
            if message.kind == b"D":
                rows.append(protocol.parse_row(message.body))
            elif message.kind == b"E" and failure is None:
                failure = self._to_connect_error(protocol.parse_error(message.body))
        if failure is not None:
            raise failure
        return rows

    def identify(self) -> SystemIdentity:
        """The server's identity, and how far its WAL is flushed."""
        ((system, timeline, lsn, *_),) = self.command("IDENTIFY_SYSTEM")
        return SystemIdentity(system or "", int(timeline or 0), protocol.parse_lsn(lsn or ""))

    def timeline_history(self, timeline: int) -> str:
        """The history file of a timeline: where those end that it descends from."""
        ((_, content),) = self.command(f"TIMELINE_HISTORY {timeline}")
        return content or ""

    def create_slot(self, name: str) -> tuple[int, str]:
        """Create a slot; returns its first LSN, and the name of the snapshot of all rows before it."""
        command = f'CREATE_REPLICATION_SLOT "{name}" LOGICAL pgoutput EXPORT_SNAPSHOT'
        (row,) = self.command(command)
        return protocol.parse_lsn(row[1] or ""), row[2] or ""

    def start_streaming(self, slot: str, lsn: int, publication: str) -> None:
        """Start the change stream, with the transactions that were committed after `lsn`."""
        # A list of identifiers within a string literal.
        names = f'"{publication.replace(_QUOTE, _QUOTE * 2)}"'.replace("'", "''")
        self._send(
            protocol.query(
                f'START_REPLICATION SLOT "{slot}" LOGICAL {protocol.format_lsn(lsn)} '
                f"(proto_version '1', publication_names '{names}')"
            )
        )
        while self._next_or_raise().kind != b"W":
            pass

    def receive(self, timeout: float) -> list[XLogData | Keepalive]:
        """What arrives within `timeout` seconds."""
        found: list[XLogData | Keepalive] = []
        messages, self._waiting = self._waiting, []
        for message in messages or self._arrived(timeout):
            if message.kind == b"E":
                raise self._to_connect_error(protocol.parse_error(message.body))
            if message.kind == b"c":
                raise RetriableError(f"{self._address} ended the change stream.")
            if message.kind == b"d":
                copied = protocol.parse_copied(message.body)
                if copied is not None:
                    found.append(copied)
        return found

    def send_status(self, written: int, flushed: int, *, ask: bool = False) -> None:
        """Confirm positions (standby status update); `ask` requests a keepalive in reply."""
        self._send(protocol.status(written, flushed, datetime.now(UTC), ask=ask))

    def close(self) -> None:
        """Terminate the session first, so that the slot is free at once."""
        with contextlib.suppress(OSError):
            self._socket.settimeout(1.0)
            self._socket.sendall(protocol.message(b"c", b"") + protocol.message(b"X", b""))
        self._socket.close()

    def _send(self, data: bytes) -> None:
        try:
            self._socket.settimeout(_TIMEOUT_S)
            self._socket.sendall(data)
        except OSError as error:
            raise RetriableError(f"{self._address} is unavailable: {error}") from error

    def _next_or_raise(self) -> BackendMessage:
        message = self._next()
        if message.kind == b"E":
            error = protocol.parse_error(message.body)
            is_encrypted = isinstance(self._socket, ssl.SSLSocket)
            if error.code == _NOT_ADMITTED and is_encrypted and self._address.ssl == "prefer":
                raise _RejectedOverTls(error.text)
            raise self._to_connect_error(error)
        return message

    def _next(self) -> BackendMessage:
        deadline = time.monotonic() + _TIMEOUT_S * 6
        while not self._waiting:
            if time.monotonic() > deadline:
                raise RetriableError(f"{self._address} does not respond.")
            self._waiting = self._arrived(_TIMEOUT_S)
        return self._waiting.pop(0)

    def _arrived(self, timeout: float) -> list[BackendMessage]:
        try:
            self._socket.settimeout(max(timeout, 0.001))
            data = self._socket.recv(_RECEIVE_BYTES)
            if not data:
                raise RetriableError(f"{self._address} closed the connection.")
            return self._reader.feed(data)
        except TimeoutError:
            return []
        except OSError as error:
            raise RetriableError(f"{self._address} is unavailable: {error}") from error
        except ReplicationProtocolError as error:
            raise ConnectError(f"{self._address} is not a PostgreSQL server: {error}") from error

    def _to_connect_error(self, error: ServerError) -> ConnectError:
        """The server's error, with what to do about it."""
        text = f"{self._address}: {error.text}" + (f" ({error.detail})" if error.detail else "")
        if error.code.startswith(_AWAY):
            return RetriableError(text)
        if error.code == _SLOT_IN_USE:
            return RetriableError(
                f"{text}. Another client uses the slot; waiting until it is free."
            )
        if error.code == _NOT_READY and "wal_level" in error.text:
            return ConnectError(
                f"{self._address} does not support logical replication: set wal_level = logical in "
                "postgresql.conf and restart the server."
            )
        if error.code in {_NOT_READY, _UNKNOWN}:
            return ConnectError(f"{text}. Changes may be missing. {RESET}")
        if error.code == _NO_RIGHT or "pg_hba" in error.text:
            return ConnectError(
                f"{text}. The user needs the REPLICATION attribute: ALTER ROLE "
                f'"{self._address.user}" REPLICATION, and a line for it in pg_hba.conf.'
            )
        return ConnectError(f"{text}.")


def _tls_context(mode: str) -> ssl.SSLContext:
    """`prefer` and `require` encrypt only; the other modes also verify the certificate."""
    context = ssl.create_default_context()
    context.check_hostname = mode == "verify-full"
    if mode in {"prefer", "require"}:
        context.verify_mode = ssl.CERT_NONE
    return context


def _prepared(password: str) -> str:
    """As PostgreSQL stores passwords: after SASLprep (RFC 4013), or unchanged where it fails."""
    try:
        prepared: str = saslprep(password)
    except scramp.ScramException:
        return password
    return prepared
