"""Kafka clients of a worker and of its connectors.

The worker's settings for clients have librdkafka's names, without a prefix for all clients or with
`producer.`, `consumer.` and `admin.`; a connector's have `producer.override.` and so on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from strom.client.connection_settings import ConnectionSettings
from strom.client.factories import (
    HIGH_THROUGHPUT,
    JAVA_PARTITIONER,
    NOTHING,
    READ_AHEAD,
    SINGLE_RECORDS,
    KafkaClients,
    Properties,
)
from strom.connect.api import InvalidSettings
from strom.connect.runtime.client_overrides import override_problems, overrides_of
from strom.connect.runtime.settings import CLIENT_PREFIXES, with_prefix, without

CLIENT_ID = "strom-connect"
_PRODUCER = {
    # Explicit, so that librdkafka refuses an override of `acks` instead of disabling idempotence.
    "acks": "all",
    "enable.idempotence": True,
    **HIGH_THROUGHPUT,
    **JAVA_PARTITIONER,
}


@dataclass(frozen=True)
class Clients:
    """Makes clients; `settings` are the worker's settings for clients."""

    servers: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    overrides: Mapping[str, str] = field(default_factory=dict, repr=False)

    def of_connector(self, config: Mapping[str, str]) -> "Clients":
        """The same with a connector's overrides."""
        return Clients(self.servers, self.settings, config)

    @property
    def shared(self) -> dict[str, str]:
        """The settings of every kind of client, such as those for security."""
        return without(self.settings, CLIENT_PREFIXES)

    def producer(
        self,
        settings: Properties = NOTHING,
        on_failure: Callable[..., None] | None = None,
    ) -> Producer:
        """A producer that reports failed records only."""
        own = {**_PRODUCER, **settings}
        return self._of("producer").transactional_producer(own, on_failure)

    def reporting_producer(self) -> Producer:
        """A producer for single records, whose delivery is awaited."""
        return self._of("producer").reporting_producer({**_PRODUCER, **SINGLE_RECORDS})

    def consumer(self, settings: Properties = NOTHING, *, fixed: Properties = NOTHING) -> Consumer:
        """A consumer; overrides change its `settings`, not what is `fixed`."""
        return self._of("consumer").consumer({**READ_AHEAD, **settings}, fixed=fixed)

    def admin(self) -> AdminClient:
        """A client for topics and groups."""
        return self._of("admin").admin()

    def consumer_admin(self) -> AdminClient:
        """The same, authorized as the connector's consumer is."""
        return self._of("consumer").admin()

    def _of(self, kind: str) -> KafkaClients:
        # The config topic may hold configurations that were never validated: by older versions or others.
        problems = dict(override_problems(self.overrides))
        if problems:
            raise InvalidSettings({name: [text] for name, text in problems.items()})
        properties = {
            **self.shared,
            **with_prefix(self.settings, f"{kind}."),
            **overrides_of(self.overrides, kind),
        }
        return KafkaClients(ConnectionSettings(self.servers, properties), CLIENT_ID)
