"""A message: where it was published to, its properties, its body."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol, Self

from strom.model.tables import Table


class MessageProperties(Protocol):
    """What queues know of a message's properties. How they are encoded is the business of others."""

    raw: bytes
    """All properties, as they are delivered and stored."""
    persistent: bool
    priority: int
    expiration: str | None
    expiration_ms: int | None
    headers: Table | None
    user_id: str | None

    def changed(
        self,
        headers: Mapping[str, Any],
        *,
        without: Collection[str] = (),
        keep_expiration: bool = True,
    ) -> Self:
        """The properties with some headers set or left out, all others byte for byte as they are."""
        ...


class Message:
    """One message, shared by all queues that it was routed to; nobody changes it."""

    __slots__ = (
        "body",
        "exchange",
        "expiration_ms",
        "headers",
        "parsed",
        "persistent",
        "priority",
        "properties",
        "record",
        "routing_key",
        "timestamp_ms",
        "user_id",
    )

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        parsed: MessageProperties,
        body: bytes,
        timestamp_ms: int,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.parsed = parsed
        self.properties = parsed.raw
        self.body = body
        self.timestamp_ms = timestamp_ms
        """When it came."""
        self.persistent = parsed.persistent
        self.priority = parsed.priority
        self.expiration_ms = parsed.expiration_ms
        self.headers = parsed.headers
        self.user_id = parsed.user_id
        self.record: bytes | None = None
        """Its bytes in a log, once they were needed."""

    def with_properties(self, parsed: MessageProperties) -> "Message":
        """The same message with other properties."""
        return Message(self.exchange, self.routing_key, parsed, self.body, self.timestamp_ms)
