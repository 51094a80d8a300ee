"""A message on its way: where it was published to, its properties as raw bytes, its body."""

from strom.queues.properties import Facts, read_facts, read_headers
from strom.wire.amqp.table import Table


class Message:
    """One message, shared by all queues that it was routed to; nobody changes it."""

    __slots__ = (
        "body",
        "exchange",
        "expiration_ms",
        "facts",
        "persistent",
        "properties",
        "record",
        "routing_key",
        "timestamp_ms",
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
        facts: Facts = read_facts(properties)
        self.facts = facts
        self.persistent = facts.persistent
        self.expiration_ms = facts.expiration_ms
        self.record: bytes | None = None
        """How it lies in a log, once someone needed that."""

    @property
    def headers(self) -> Table:
        """The table of headers, decoded."""
        return read_headers(self.properties)

    @property
    def priority(self) -> int:
        """0 if none is given."""
        return self.facts.priority
