"""A message: its exchange and routing key, its properties, its body."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol, Self

from strom.model.tables import Table


class MessageProperties(Protocol):
    """What queues need of a message's properties; their encoding is left to the protocol."""

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
        """The properties with some headers set or removed; all others keep their bytes."""
        ...


class Message:
    """One message, shared by all queues that it was routed to; treat it as immutable."""

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
        """When the broker received it."""
        self.persistent = parsed.persistent
        self.priority = parsed.priority
        self.expiration_ms = parsed.expiration_ms
        self.headers = parsed.headers
        self.user_id = parsed.user_id
        self.record: bytes | None = None
        """Its encoding in a log, cached once it is needed."""

    def with_properties(self, parsed: MessageProperties) -> "Message":
        return Message(self.exchange, self.routing_key, parsed, self.body, self.timestamp_ms)
