"""Factories for confluent-kafka's producers, consumers and admin clients, with strom's defaults.

confluent-kafka is imported by the first client, so that programs without one start fast.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from strom.client.connection_settings import ConnectionSettings
from strom.client.kafka_errors import NO_RESPONSE, error_name
from strom.model.errors import UserError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, ClusterMetadata

    from strom.client.protocol_client import ProtocolClient

RESPONSE_S: Final = 5.0
NOTHING: Final[Mapping[str, Any]] = {}

HIGH_THROUGHPUT: Final[Mapping[str, Any]] = {
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 * 1024,
    "batch.num.messages": 100_000,
    "batch.size": 1_000_000,
}
"""For producers of many records. librdkafka's default closes a batch after 10,000 records."""
SINGLE_RECORDS: Final[Mapping[str, Any]] = {"linger.ms": 0}
"""For producers whose caller waits for each record."""
JAVA_PARTITIONER: Final[Mapping[str, Any]] = {"partitioner": "murmur2_random"}
"""Keys go to the partitions that Java's clients choose; librdkafka's default is CRC32."""
READ_AHEAD: Final[Mapping[str, Any]] = {
    "auto.offset.reset": "earliest",
    "queued.min.messages": 50_000,
    "queued.max.messages.kbytes": 64 * 1024,
}
"""For consumers that read whole topics, with a bounded local queue."""
NO_CALLBACKS: Final[Mapping[str, Any]] = {
    "error_cb": lambda error: None,
    "logger": logging.Logger("librdkafka", logging.CRITICAL + 1),
}
"""For producers that expect to be fenced: every call raises the error, so it is not logged as well."""

Properties = Mapping[str, Any]


@dataclass(frozen=True)
class KafkaClients:
    """Makes clients for one Kafka.

    The user's properties override the `defaults` of each call, but not the `fixed` ones, which the code
    relies on.
    """

    settings: ConnectionSettings
    client_id: str = "strom"

    producer_defaults: ClassVar[Properties] = NOTHING

    @property
    def servers(self) -> str:
        """The bootstrap servers, separated by commas."""
        return self.settings.servers

    def admin(self) -> "AdminClient":
        """A client for topics, groups and configurations. Keep it alive as long as its futures."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._properties({}, {}))

    def producer(
        self,
        defaults: Properties = NOTHING,
        on_failure: Callable[..., None] | None = None,
        *,
        fixed: Properties = NOTHING,
    ) -> "Producer":
        """An idempotent producer that reports only failed deliveries."""
        from confluent_kafka import Producer

        return Producer(self._failures_only(defaults, on_failure, fixed))

    def reporting_producer(
        self, defaults: Properties = NOTHING, *, fixed: Properties = NOTHING
    ) -> "Producer":
        """An idempotent producer that reports every delivery."""
        from confluent_kafka import Producer

        return Producer(self._idempotent(defaults, fixed))

    def transactional_producer(
        self,
        defaults: Properties = NOTHING,
        on_failure: Callable[..., None] | None = None,
        *,
        fixed: Properties = NOTHING,
    ) -> "Producer":
        """As `producer`; every call of it that fails raises KafkaException."""
        from strom.client.transactional_producer import TransactionalProducer

        return TransactionalProducer(self._failures_only(defaults, on_failure, fixed))

    def consumer(
        self, defaults: Properties = NOTHING, *, fixed: Properties = NOTHING
    ) -> "Consumer":
        """A consumer without automatic commits."""
        from confluent_kafka import Consumer

        own = {
            "group.id": self.client_id,  # librdkafka requires one even of consumers without a group
            "enable.auto.commit": False,
            # By default librdkafka pauses for a second whenever its local queue is full: half the rate.
            "fetch.queue.backoff.ms": 10,
            **self._consumer_defaults(),
            **defaults,
        }
        return Consumer(self._properties(own, fixed))

    def protocol_client(self) -> "ProtocolClient":
        """A client for requests that librdkafka has no call for."""
        from strom.client.protocol_client import ProtocolClient

        return ProtocolClient(self.settings, self.client_id)

    def metadata(
        self, client: "AdminClient | Producer | Consumer", topic: str | None = None
    ) -> "ClusterMetadata":
        """The cluster's brokers and topics, or one topic; UserError if no broker responds."""
        from confluent_kafka import KafkaException

        try:
            if topic is None:
                return client.list_topics(timeout=RESPONSE_S)
            return client.list_topics(topic, timeout=RESPONSE_S)
        except KafkaException as error:
            if error_name(error) in NO_RESPONSE:
                raise UserError(
                    f"The server at {self.servers} does not respond as a Kafka broker. Check the "
                    "address, and security.protocol if the broker requires TLS or SASL."
                ) from None
            raise

    def _consumer_defaults(self) -> Properties:
        return NOTHING

    def _failures_only(
        self, defaults: Properties, on_failure: Callable[..., None] | None, fixed: Properties
    ) -> dict[str, Any]:
        # A callback for every record would cost more than the rest of producing.
        reports: dict[str, Any] = {"delivery.report.only.error": True}
        if on_failure is not None:
            reports["on_delivery"] = on_failure
        return self._idempotent(defaults, {**fixed, **reports})

    def _idempotent(self, defaults: Properties, fixed: Properties) -> dict[str, Any]:
        made = self._properties({**self.producer_defaults, **defaults}, fixed)
        # Idempotence requires acks=all (KIP-98); a user may configure less.
        if str(made.get("acks", made.get("request.required.acks", "all"))) in {"all", "-1"}:
            made.setdefault("enable.idempotence", True)
        return made

    def _properties(self, defaults: Properties, fixed: Properties) -> dict[str, Any]:
        return {
            "client.id": self.client_id,
            # librdkafka's log lines are for developers; a user can restore them with log_level.
            "log_level": 0,
            **defaults,
            **self.settings.properties,
            **fixed,
            "bootstrap.servers": self.servers,
        }
