"""Kafka clients of a worker and of its connectors, from one place of settings.

Settings of the worker that are for clients carry librdkafka's names, bare for all of them or with
`producer.`, `consumer.` and `admin.` in front; a connector's own have `producer.override.` and so on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from strom.client.transactional_producer import TransactionalProducer
from strom.connect.api import InvalidSettings
from strom.connect.runtime.client_overrides import override_problems, overrides_of
from strom.connect.runtime.settings import CLIENT_PREFIXES, with_prefix, without

_QUIET = {"log_level": 0}
_PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "partitioner": "murmur2_random",  # as Java clients choose partitions
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 * 1024,
    "batch.num.messages": 100_000,
    "batch.size": 1_000_000,
}
_CONSUMER = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # librdkafka waits a second whenever its local queue is full; that halves the rate.
    "fetch.queue.backoff.ms": 10,
    "queued.min.messages": 50_000,
    "queued.max.messages.kbytes": 64 * 1024,
}


@dataclass(frozen=True)
class Clients:
    """Makes clients; `settings` are those of the worker that no class declares."""

    servers: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    overrides: Mapping[str, str] = field(default_factory=dict, repr=False)

    def of_connector(self, config: Mapping[str, str]) -> "Clients":
        """The same with a connector's own settings for its clients."""
        return Clients(self.servers, self.settings, config)

    @property
    def shared(self) -> dict[str, str]:
        """What every kind of client gets, security above all."""
        return without(self.settings, CLIENT_PREFIXES)

    def producer(
        self,
        settings: Mapping[str, Any] | None = None,
        on_failure: Callable[..., None] | None = None,
    ) -> Producer:
        """A producer that calls back only for records that could not be written."""
        made = self._made("producer", {**_PRODUCER, **(settings or {})})
        # librdkafka then reports only what failed: a million records need no million callbacks.
        made["delivery.report.only.error"] = True
        if on_failure is not None:
            made["on_delivery"] = on_failure
        return TransactionalProducer(made)

    def reporting_producer(self) -> Producer:
        """A producer for single records whose writing is waited for."""
        return Producer(self._made("producer", {**_PRODUCER, "linger.ms": 0}))

    def consumer(self, settings: Mapping[str, Any]) -> Consumer:
        """A consumer."""
        return Consumer(self._made("consumer", {**_CONSUMER, **settings}))

    def admin(self) -> AdminClient:
        """A client for topics and groups."""
        return AdminClient(self._made("admin", {}))

    def consumer_admin(self) -> AdminClient:
        """The same, authorized as the connector's consumer is."""
        return AdminClient(self._made("consumer", {}))

    def _made(self, kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        # A configuration may be in the topic unchecked: from an older version, or from other writers.
        problems = dict(override_problems(self.overrides))
        if problems:
            raise InvalidSettings({name: [text] for name, text in problems.items()})
        return {
            **_QUIET,
            **settings,
            **self.shared,
            **with_prefix(self.settings, f"{kind}."),
            **overrides_of(self.overrides, kind),
            "bootstrap.servers": self.servers,
        }
