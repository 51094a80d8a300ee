"""Requests that librdkafka has no call for yet, sent in Kafka's protocol over a plain connection."""

import itertools
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from strom.cli.connection import ANSWER_SECONDS, Connection
from strom.model.errors import ApiError, ErrorCode, ProtocolError, UserError
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.messages import RESPONSES
from strom.wire.kafka.messages.k03_metadata import MetadataRequest, MetadataResponse
from strom.wire.kafka.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from strom.wire.kafka.schema import Request, Response

CLIENT_ID = b"strom-cli"
MOST_BYTES = 64 * 1024 * 1024
METADATA_VERSION = 12
FIND_COORDINATOR_VERSION = 4
TRIES = 50
PAUSE_SECONDS = 0.1

_HEADER = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")

R = TypeVar("R", bound=Response)


class Node(NamedTuple):
    """A broker of the cluster."""

    id: int
    host: str
    port: int


class WireClient:
    """Speaks to any broker of a cluster; all versions used have flexible headers."""

    def __init__(self, connection: Connection) -> None:
        protocol = connection.settings.get("security.protocol", "PLAINTEXT").upper()
        if protocol != "PLAINTEXT":
            raise UserError(f"This command speaks only PLAINTEXT so far, not {protocol}.")
        connection.check_reachable()
        self._connection = connection
        self._numbers = itertools.count(1)

    def nodes(self) -> list[Node]:
        """Every broker of the cluster."""
        answer = self.call(MetadataRequest(topics=[]), METADATA_VERSION, MetadataResponse)
        return [Node(one.node_id, one.host, one.port) for one in answer.brokers]

    def coordinator(self, group: str) -> Node:
        """The broker that coordinates a group; ApiError if there is none now."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        answer = self.call(request, FIND_COORDINATOR_VERSION, FindCoordinatorResponse)
        (found,) = answer.coordinators
        check(found.error_code, found.error_message)
        return Node(found.node_id, found.host, found.port)

    def call(self, request: Request, version: int, answer: type[R], node: Node | None = None) -> R:
        """Send a request to a broker, whichever answers if none is named; its answer."""
        key = request.SCHEMA.api_key
        number = next(self._numbers)
        head = _HEADER.pack(key, version, number, len(CLIENT_ID)) + CLIENT_ID + b"\0"
        frame = head + encode(request, version)
        with self._open(node) as connection:
            connection.sendall(_SIZE.pack(len(frame)) + frame)
            body = _receive(connection)
        if _SIZE.unpack_from(body)[0] != number or RESPONSES[key] is not answer:
            raise ProtocolError("the broker has answered something else")
        return decode(answer, version, memoryview(body), 5)

    @contextmanager
    def _open(self, node: Node | None) -> Iterator[socket.socket]:
        addresses = [(node.host, node.port)] if node else self._connection.addresses()
        problem: OSError | None = None
        for address in addresses:
            try:
                connection = socket.create_connection(address, timeout=2 * ANSWER_SECONDS)
            except OSError as error:
                problem = error
                continue
            with connection:
                try:
                    yield connection
                except OSError as error:
                    raise UserError(f"The broker at {address[0]}:{address[1]} hung up.") from error
            return
        raise UserError(
            f"No Kafka broker answers at {addresses[0][0]}:{addresses[0][1]}."
        ) from problem


def check(number: int, message: str | None = None) -> None:
    """Raise what a broker's answer tells; a code of days to come is an unknown error."""
    if number:
        known = {code.value: code for code in ErrorCode}
        raise ApiError(known.get(number, ErrorCode.UNKNOWN_SERVER_ERROR), message)


def _receive(connection: socket.socket) -> bytes:
    (size,) = _SIZE.unpack(_receive_exactly(connection, _SIZE.size))
    if not _SIZE.size < size <= MOST_BYTES:
        raise UserError("What listens there does not answer as a Kafka broker.")
    return _receive_exactly(connection, size)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(min(size - len(received), 1 << 16))
        if not piece:
            raise ConnectionResetError("the broker hung up")
        received += piece
    return bytes(received)
