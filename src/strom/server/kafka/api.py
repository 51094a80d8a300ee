"""What request handlers are written against: their context, permissions and registration.

ApiVersions advertises what is registered here, so that the two cannot differ.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from strom.broker.broker import Broker
from strom.broker.client_telemetry import ClientTelemetry
from strom.broker.fetch_sessions import FetchSessions
from strom.broker.fetching import ChangesOfMany
from strom.broker.groups import Groups
from strom.broker.share_groups import ShareGroups
from strom.broker.transactions import Transactions
from strom.model.errors import ErrorCode
from strom.model.steps import Steps
from strom.server.kafka.long_work import LongWork
from strom.server.memory import MemoryPool
from strom.wire.kafka.schema import Request, Response, Versions

T_co = TypeVar("T_co", covariant=True)


class PendingResponse(NamedTuple, Generic[T_co]):
    """A future, and the function that converts its result to a response: a value, or bytes.

    A coroutine would do for a handler; this saves frequent requests the cost of a task.
    """

    result: asyncio.Future[Any]
    convert: Callable[[Any], T_co]
    only_reads: bool = False
    """Whether a task changes nothing."""
    holds_frame: bool = False
    """Whether the bytes of the request are needed until the result is there."""

    def abandon(self) -> None:
        """Cancel the future of a disconnected client. A task runs on if it may be amid a change."""
        if self.only_reads or not isinstance(self.result, asyncio.Task):
            self.result.cancel()


class ReadOnly(NamedTuple):
    """A coroutine that changes nothing but what its client alone uses: cancelled if that disconnects."""

    work: Coroutine[Any, Any, Response]


@dataclass(frozen=True)
class Endpoint:
    """The address at which clients reach a broker."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True)
class Services:
    """What all requests of a server share."""

    broker: Broker
    groups: Groups
    shares: ShareGroups
    transactions: Transactions
    endpoint: Endpoint
    fetch_sessions: FetchSessions
    memory: MemoryPool
    loop: asyncio.AbstractEventLoop
    long_work: LongWork = field(default_factory=LongWork)
    telemetry: ClientTelemetry | None = None
    """None unless clients may push metrics."""
    waits: set[ChangesOfMany] = field(default_factory=set)
    """What requests wait for records of many partitions with."""


class CloseCallbacks:
    """What is called when the client has disconnected, each by a name that its owner chooses."""

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[], object]] | None = {}

    def add(self, name: object, callback: Callable[[], object]) -> None:
        """Call it then, or now if the client disconnected while its request was decoded."""
        if self._callbacks is None:
            callback()
        else:
            self._callbacks[name] = callback

    def remove(self, name: object) -> None:
        if self._callbacks is not None:
            self._callbacks.pop(name, None)

    def call(self) -> None:
        """The client has disconnected."""
        callbacks, self._callbacks = self._callbacks, None
        for callback in (callbacks or {}).values():
            callback()


class Context:
    __slots__ = ("client_id", "on_close", "peer", "services", "version")

    def __init__(
        self,
        services: Services,
        version: int,
        client_id: str | None,
        peer: str,
        on_close: CloseCallbacks | None = None,
    ) -> None:
        self.services = services
        self.version = version
        self.client_id = client_id
        self.peer = peer
        """The client's address, as in `127.0.0.1:40123`."""
        self.on_close = CloseCallbacks() if on_close is None else on_close

    @property
    def broker(self) -> Broker:
        return self.services.broker

    @property
    def groups(self) -> Groups:
        return self.services.groups

    @property
    def shares(self) -> ShareGroups:
        return self.services.shares

    @property
    def transactions(self) -> Transactions:
        return self.services.transactions

    @property
    def long_work(self) -> LongWork:
        return self.services.long_work

    @property
    def client_host(self) -> str:
        """The client's address as Kafka shows it, with a slash in front."""
        return f"/{self.peer.rpartition(':')[0]}"


def known_fencing(code: ErrorCode, context: Context, since: int) -> ErrorCode:
    """Before the version that knows PRODUCER_FENCED (KIP-588), INVALID_PRODUCER_EPOCH stands for it."""
    is_unknown = code is ErrorCode.PRODUCER_FENCED and context.version < since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else code


class Operation(Enum):
    """The operations of Kafka's ACLs, with Kafka's numbers."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: Operation) -> int:
    return sum(1 << operation.value for operation in operations)


TOPIC_OPERATIONS = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
"""Authorized operations, as the bit fields in responses: without authorization, all of them."""
CLUSTER_OPERATIONS = _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
GROUP_OPERATIONS = _bits(
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


class Resource(Enum):
    """The resource types of Kafka's ACLs, with Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


@dataclass(frozen=True)
class Needs:
    """The permission that a request needs on each resource it names."""

    operation: Operation
    resource: Resource


R = TypeVar("R", bound=Request)
Outcome: TypeAlias = (
    Response
    | asyncio.Future[Any]
    | PendingResponse[Response]
    | Coroutine[Any, Any, Response | None]
    | ReadOnly
    | Steps[Response]
    | None
)
"""A response, a pending one, or none (acks=0). A handler that takes long and changes nothing is a
generator: it runs in slices, so it must iterate over copies of what may change meanwhile."""


@dataclass(frozen=True)
class Handler:
    request: type[Request]
    versions: Versions
    needs: tuple[Needs, ...]
    handle: Callable[[Any, Context], Outcome]

    @property
    def name(self) -> str:
        """Kafka's name of the api."""
        return self.request.__name__.removesuffix("Request")


HANDLERS: dict[int, Handler] = {}


def handler(
    request: type[R], *needs: Needs
) -> Callable[[Callable[[R, Context], Outcome]], Callable[[R, Context], Outcome]]:
    """Register a function as the handler of these requests, in all their versions."""

    def register(function: Callable[[R, Context], Outcome]) -> Callable[[R, Context], Outcome]:
        key = request.SCHEMA.api_key
        if key in HANDLERS:
            raise ValueError(f"api key {key} has two handlers")
        HANDLERS[key] = Handler(request, request.SCHEMA.stable, needs, function)
        return function

    return register
