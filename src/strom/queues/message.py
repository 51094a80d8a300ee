"""A message on its way: where it was published to, its properties as raw bytes, its body."""

from strom.queues.properties import read_facts


class Message:
    """One message, shared by all queues that it was routed to; nobody changes it."""

    __slots__ = (
        "body",
        "exchange",
        "expiration_ms",
        "headers",
        "persistent",
        "priority",
        "properties",
        "record",
        "routing_key",
        "timestamp_ms",
        "user_id",
    )

    def __init__(
        self, exchange: str, routing_key: str, properties: bytes, body: bytes, timestamp_ms: int
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.properties = properties
        """Flags and fields, as in a content header."""
        self.body = body
        self.timestamp_ms = timestamp_ms
        """When it came."""
        facts = read_facts(properties)
        self.persistent, self.priority, self.expiration_ms, self.headers, self.user_id = facts
        self.record: bytes | None = None
        """How it lies in a log, once someone needed that."""
