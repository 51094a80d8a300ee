"""Requests that librdkafka has no call for yet, sent in Kafka's protocol over a plain connection.

That goes only where brokers want neither TLS nor a password; elsewhere a UserError says so.
"""

import itertools
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple, TypeVar

from strom.client.factories import RESPONSE_S, KafkaClients
from strom.model.errors import ApiError, ErrorCode, ProtocolError, UserError
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.header import request_header, response_header
from strom.wire.kafka.messages import RESPONSES
from strom.wire.kafka.messages.k03_metadata import MetadataRequest, MetadataResponse
from strom.wire.kafka.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from strom.wire.kafka.schema import Request, Response

CLIENT_ID = "strom-cli"
SIZE_BYTES = 4
MOST_BYTES = 64 * 1024 * 1024
METADATA_VERSION = 12
FIND_COORDINATOR_VERSION = 4
PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.1
_NOT_YET = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)

R = TypeVar("R", bound=Response)
T = TypeVar("T")


class Coordinates(IntEnum):
    """What a coordinator is asked for, with Kafka's numbers."""

    GROUP = 0
    TRANSACTION = 1


class Node(NamedTuple):
    """A broker of the cluster."""

    id: int
    host: str
    port: int


class WireClient:
    """Speaks to any broker of a cluster, one request at a time."""

    def __init__(self, connection: KafkaClients) -> None:
        if not is_plain(connection):
            raise UserError(
                "This command works only where brokers want neither TLS nor a password yet; "
                "Kafka's own tool can do it."
            )
        self._connection = connection
        self._numbers = itertools.count(1)

    def nodes(self) -> list[Node]:
        """Every broker of the cluster."""
        answer = self.call(MetadataRequest(topics=[]), METADATA_VERSION, MetadataResponse)
        return [Node(one.node_id, one.host, one.port) for one in answer.brokers]

    def ask_coordinator(
        self, name: str, ask: Callable[[Node], T], of: Coordinates = Coordinates.GROUP
    ) -> T:
        """Ask the broker that coordinates a group or transactional id; again while it gets ready."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return ask(self._coordinator(name, of))
            except ApiError as error:
                if error.code not in _NOT_YET or time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE_SECONDS)

    def call(self, request: Request, version: int, answer: type[R], node: Node | None = None) -> R:
        """Send a request to a broker, whichever answers if none is named; its answer."""
        key = request.SCHEMA.api_key
        if RESPONSES[key] is not answer:
            raise ValueError(f"{answer.__name__} does not answer {type(request).__name__}")
        number = next(self._numbers)
        frame = request_header(key, version, number, CLIENT_ID) + encode(request, version)
        with self._open(node) as channel:
            channel.sendall(len(frame).to_bytes(SIZE_BYTES, "big") + frame)
            body = _receive(channel)
        head = response_header(key, version, number)
        if not body.startswith(head):
            raise ProtocolError("the broker has answered another request")
        return decode(answer, version, memoryview(body), len(head))

    def _coordinator(self, name: str, of: Coordinates) -> Node:
        request = FindCoordinatorRequest(key_type=of, coordinator_keys=[name])
        answer = self.call(request, FIND_COORDINATOR_VERSION, FindCoordinatorResponse)
        (found,) = answer.coordinators
        check(found.error_code, found.error_message)
        return Node(found.node_id, found.host, found.port)

    @contextmanager
    def _open(self, node: Node | None) -> Iterator[socket.socket]:
        addresses = [(node.host, node.port)] if node else self._connection.settings.addresses()
        problem: OSError | None = None
        for address in addresses:
            try:
                channel = socket.create_connection(address, timeout=2 * RESPONSE_S)
            except OSError as error:
                problem = error
                continue
            with channel:
                try:
                    yield channel
                except OSError as error:
                    raise UserError(f"The broker at {address[0]}:{address[1]} hung up.") from error
            return
        raise UserError(
            f"No Kafka broker answers at {addresses[0][0]}:{addresses[0][1]}."
        ) from problem


def is_plain(connection: KafkaClients) -> bool:
    """Whether brokers can be talked to without TLS and password."""
    return connection.settings.security_protocol == "PLAINTEXT"


def check(number: int, message: str | None = None) -> None:
    """Raise what a broker's answer tells; a code of days to come is an unknown error."""
    if number:
        known = {code.value: code for code in ErrorCode}
        raise ApiError(known.get(number, ErrorCode.UNKNOWN_SERVER_ERROR), message)


def _receive(channel: socket.socket) -> bytes:
    size = int.from_bytes(_receive_exactly(channel, SIZE_BYTES), "big")
    if not SIZE_BYTES <= size <= MOST_BYTES:
        raise UserError("What listens there does not answer as a Kafka broker.")
    return _receive_exactly(channel, size)


def _receive_exactly(channel: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = channel.recv(min(size - len(received), 1 << 16))
        if not piece:
            raise ConnectionResetError("the broker hung up")
        received += piece
    return bytes(received)
