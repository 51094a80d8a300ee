"""The registry of request handlers, with the permissions that each request needs.

ApiVersions advertises what is registered here, so that the two cannot differ.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from strom.server.kafka.pending_response import PendingResponse
from strom.wire.kafka.schema import Request, Response, Versions

if TYPE_CHECKING:
    from strom.server.kafka.context import Context


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
    | Coroutine[Any, Any, Response]
    | None
)
"""A response, a pending one, or none (acks=0)."""


@dataclass(frozen=True)
class Handler:
    request: type[Request]
    versions: Versions
    needs: tuple[Needs, ...]
    handle: Callable[[Any, "Context"], Outcome]

    @property
    def name(self) -> str:
        """Kafka's name of the api."""
        return self.request.__name__.removesuffix("Request")


HANDLERS: dict[int, Handler] = {}


def handler(
    request: type[R], *needs: Needs
) -> Callable[[Callable[[R, "Context"], Outcome]], Callable[[R, "Context"], Outcome]]:
    """Register a function as the handler of these requests, in all their versions."""

    def register(function: Callable[[R, "Context"], Outcome]) -> Callable[[R, "Context"], Outcome]:
        key = request.SCHEMA.api_key
        if key in HANDLERS:
            raise ValueError(f"api key {key} has two handlers")
        HANDLERS[key] = Handler(request, request.SCHEMA.stable, needs, function)
        return function

    return register
