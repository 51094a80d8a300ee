"""Kafka's protocol, request by request, for what librdkafka has no call for.

    with ProtocolClient(ConnectionSettings("127.0.0.1:9092"), "my-program") as client:
        response = client.call(ListGroupsRequest(), ListGroupsResponse, versions=Versions(4, 5))

It keeps one connection to each broker open for reuse. A client belongs to one thread.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple, Self, TypeVar

from strom.client.broker_connection import BrokerConnection, BrokerUnreachable, check
from strom.client.connection_settings import ConnectionSettings
from strom.client.sasl import MECHANISMS
from strom.model.errors import ApiError, ErrorCode, UserError
from strom.model.retries import RetryPolicy
from strom.supervision.retrying import retry
from strom.wire.kafka.messages.k03_metadata import MetadataRequest, MetadataResponse
from strom.wire.kafka.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from strom.wire.kafka.schema import Request, Response, Versions

CONNECT_TIMEOUT_S: Final = 5.0
REQUEST_TIMEOUT_S: Final = 10.0
RETRY_TIMEOUT_S: Final = 30.0
RETRY: Final = RetryPolicy(first_s=0.1, longest_s=1.0)
"""Kafka's `retry.backoff.ms` and `retry.backoff.max.ms`."""
_METADATA: Final = Versions(4, 13)
_FIND_COORDINATOR: Final = Versions(1, 3)
"""The versions with one key, which every Kafka since 0.11 supports; later ones are batched (KIP-699)."""
_NOT_READY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)

R = TypeVar("R", bound=Response)
T = TypeVar("T")


class CoordinatorType(IntEnum):
    """The `key_type` of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class BrokerNode(NamedTuple):
    """A broker and its advertised address."""

    id: int
    host: str
    port: int


class ProtocolClient:
    """Sends requests to the brokers of one cluster.

    Raises BrokerUnreachable, AuthenticationFailed, ApiError with the broker's error code, and
    ProtocolError if the server is not a Kafka broker. The constructor raises UserError for settings that
    it does not support.
    """

    def __init__(self, settings: ConnectionSettings, client_id: str) -> None:
        if settings.sasl_mechanism not in {None, *MECHANISMS}:
            raise UserError(
                f"sasl.mechanism {settings.sasl_mechanism} is not supported for this request. "
                f"Supported: {', '.join(MECHANISMS)}."
            )
        self._settings = settings
        self._client_id = client_id
        self._addresses = settings.addresses()
        self._context = settings.ssl_context()
        self._connections: dict[tuple[str, int], BrokerConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def nodes(self) -> list[BrokerNode]:
        """Every broker of the cluster."""
        found = self.call(MetadataRequest(topics=[]), MetadataResponse, versions=_METADATA)
        return [BrokerNode(one.node_id, one.host, one.port) for one in found.brokers]

    def coordinator(self, key: str, of: CoordinatorType = CoordinatorType.GROUP) -> BrokerNode:
        """The broker that coordinates a group or a transactional id."""
        request = FindCoordinatorRequest(key=key, key_type=of)
        found = self.call(request, FindCoordinatorResponse, versions=_FIND_COORDINATOR)
        check(found.error_code, found.error_message)
        return BrokerNode(found.node_id, found.host, found.port)

    def call_coordinator(
        self,
        key: str,
        request: Callable[[BrokerNode], T],
        of: CoordinatorType = CoordinatorType.GROUP,
        timeout_s: float = RETRY_TIMEOUT_S,
    ) -> T:
        """The result of `request` on the coordinator; retried while it is loading, moving or busy."""

        def on_failure(error: Exception, _: float) -> None:
            if isinstance(error, ApiError) and error.code not in _NOT_READY:
                raise error

        policy = replace(RETRY, deadline_s=timeout_s)
        return retry(
            lambda: request(self.coordinator(key, of)), policy, ApiError, on_failure=on_failure
        )

    def call(
        self,
        request: Request,
        response: type[R],
        node: BrokerNode | None = None,
        *,
        versions: Versions | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> R:
        """Send a request to a broker, or to any bootstrap server, and return the response.

        The version is the highest that both sides support, within `versions` if these are given.
        """
        if node is not None:
            connection = self._connected((node.host, node.port))
        else:
            connection = self._connected_to_any()
        return connection.call(request, response, timeout_s, versions)

    def _connected_to_any(self) -> BrokerConnection:
        problems = []
        # Connected servers first: a bootstrap server that is down costs its timeout only once.
        for address in sorted(self._addresses, key=lambda one: one not in self._connections):
            try:
                return self._connected(address)
            except BrokerUnreachable as problem:
                problems.append(problem)
        if len(problems) == 1:
            raise problems[0]
        raise BrokerUnreachable(
            "None of the bootstrap servers can be reached. " + " ".join(map(str, problems))
        )

    def _connected(self, address: tuple[str, int]) -> BrokerConnection:
        kept = self._connections.pop(address, None)
        if kept is not None and not kept.is_reusable():
            kept.close()
            kept = None
        connection = kept or BrokerConnection(
            address, self._settings, self._context, self._client_id, CONNECT_TIMEOUT_S
        )
        self._connections[address] = connection
        return connection
