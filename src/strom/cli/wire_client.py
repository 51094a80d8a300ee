"""Requests that librdkafka cannot send, sent straight over a connection of our own.

Only what a command needs: one request at a time, and no security; where that is asked for, a UserError
says so.
"""

import socket
from itertools import count
from types import TracebackType
from typing import Self, TypeVar

from strom.cli.connection import ANSWER_SECONDS, Connection
from strom.model.errors import ProtocolError, UserError
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.header import request_header, response_header
from strom.wire.kafka.messages import RESPONSES
from strom.wire.kafka.schema import Request, Response

R = TypeVar("R", bound=Response)
LENGTH_BYTES = 4
LARGEST_ANSWER = 64 * 1024 * 1024


class WireClient:
    """One connection to one broker. Use it in a `with` statement."""

    def __init__(self, connection: Connection, host: str, port: int) -> None:
        protocol = connection.settings.get("security.protocol", "plaintext").lower()
        if protocol != "plaintext":
            raise UserError(f"This command cannot speak {protocol} yet; use Kafka's own tool.")
        self._where = f"{host}:{port}"
        self._numbers = count(1)
        try:
            self._socket = socket.create_connection((host, port), timeout=ANSWER_SECONDS)
        except OSError as error:
            raise UserError(f"The broker at {self._where} does not answer: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def ask(self, request: Request, version: int, answer: type[R]) -> R:
        """Send a request and read its answer, which is of the given class."""
        key = request.SCHEMA.api_key
        if RESPONSES[key] is not answer:
            raise ValueError(f"{answer.__name__} does not answer {type(request).__name__}")
        number = next(self._numbers)
        frame = request_header(key, version, number, "strom-cli") + encode(request, version)
        try:
            self._socket.sendall(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
            length = int.from_bytes(self._receive(LENGTH_BYTES), "big")
            if length > LARGEST_ANSWER:
                raise ProtocolError(f"an answer of {length} bytes")
            body = self._receive(length)
        except OSError as error:
            raise UserError(f"The broker at {self._where} hung up: {error}") from None
        head = response_header(key, version, number)
        if not body.startswith(head):
            raise ProtocolError("the answer is one to another request")
        return decode(answer, version, memoryview(body), len(head))

    def _receive(self, length: int) -> bytes:
        received = bytearray()
        while len(received) < length:
            chunk = self._socket.recv(length - len(received))
            if not chunk:
                raise ConnectionError("the connection was closed")
            received += chunk
        return bytes(received)
