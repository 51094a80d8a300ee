"""Kafka clients of a worker and of its connectors, from one place of settings.

Settings of the worker that are for clients carry librdkafka's names, bare for all of them or with
`producer.`, `consumer.` and `admin.` in front; a connector's own have `producer.override.` and so on.
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
    # Stated here too, so that an override of `acks` is refused, not served without idempotence.
    "acks": "all",
    "enable.idempotence": True,
    **HIGH_THROUGHPUT,
    **JAVA_PARTITIONER,
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
        settings: Properties = NOTHING,
        on_failure: Callable[..., None] | None = None,
    ) -> Producer:
        """A producer that calls back only for records that could not be written."""
        own = {**_PRODUCER, **settings}
        return self._of("producer").transactional_producer(own, on_failure)

    def reporting_producer(self) -> Producer:
        """A producer for single records whose writing is waited for."""
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
        # A configuration may be in the topic unchecked: from an older version, or from other writers.
        problems = dict(override_problems(self.overrides))
        if problems:
            raise InvalidSettings({name: [text] for name, text in problems.items()})
        properties = {
            **self.shared,
            **with_prefix(self.settings, f"{kind}."),
            **overrides_of(self.overrides, kind),
        }
        return KafkaClients(ConnectionSettings(self.servers, properties), CLIENT_ID)
