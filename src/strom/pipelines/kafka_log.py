"""The log as a pipeline needs it: positions, topics, dead letters, progress. By confluent-kafka."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from strom.client.client_properties import to_java
from strom.client.cluster import cluster_id, topic_config
from strom.client.connection_settings import ConnectionSettings
from strom.client.factories import KafkaClients
from strom.client.offsets import list_offsets
from strom.client.topics import create_topic, describe_topic, wait_for_topic
from strom.model.errors import UserError
from strom.pipelines.failures import Transient
from strom.pipelines.layers.dead_letters import DEFAULT_LIMIT, DeadLetter, DeadLetterProducer
from strom.pipelines.offsets import Offsets

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

ANSWER_SECONDS = 15.0
CLIENT_ID = "strom-views"
KEEP_FOREVER = {"retention.ms": "-1"}


class LogTruncated(UserError):
    """Records that a view has not seen are gone from the log."""


class KafkaUnavailable(Transient):
    """Kafka does not respond, or cannot serve a topic at the moment."""


class KafkaLog:
    """A connection to a Kafka, opened when it is first needed."""

    def __init__(
        self,
        servers: str,
        settings: Mapping[str, str] | None = None,
        *,
        response_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.servers = servers
        self._response_seconds = response_seconds
        connection = ConnectionSettings(servers, settings or {})
        self._clients = KafkaClients(connection, CLIENT_ID)
        self.java_settings = to_java(connection.properties)
        """TLS and SASL for Spark's connector."""
        self._admin: AdminClient | None = None
        self._dead_letters: dict[str, DeadLetterProducer] = {}
        self._consumers: dict[str, Consumer] = {}
        self._incarnations: dict[str, int] = {}

    @property
    def admin(self) -> "AdminClient":
        """The client for topics and positions."""
        if self._admin is None:
            self._admin = self._clients.admin()
        return self._admin

    def topics(self) -> dict[str, int]:
        """All topics with the number of their partitions."""
        from confluent_kafka import KafkaException

        try:
            found = self.admin.list_topics(timeout=self._response_seconds)
        except KafkaException:
            raise self._unavailable() from None
        return {name: len(topic.partitions) for name, topic in found.topics.items()}

    def cluster_id(self) -> str | None:
        """The id that the cluster has given itself; None if it is too old for that."""
        from confluent_kafka import KafkaException

        try:
            return cluster_id(self.admin, self._response_seconds)
        except KafkaException:
            raise self._unavailable() from None

    def incarnation(self, topic: str) -> int:
        """A number that a topic keeps, and another one of its name has not; 0 where Kafka gives no ids.

        It is the one that was seen when positions were last asked for.
        """
        if topic not in self._incarnations:
            self._partitions(topic)
        return self._incarnations[topic]

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic that keeps its records; nothing happens if it is there."""
        create_topic(
            self.admin,
            topic,
            partitions=partitions,
            config=KEEP_FOREVER,
            timeout_s=self._response_seconds,
        )
        wait_for_topic(self.admin, topic, self._response_seconds)

    def ends(self, topic: str) -> Offsets:
        """The end of what can be read: open transactions are not."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(topic, OffsetSpec.latest())

    def starts(self, topic: str) -> Offsets:
        """The oldest records that are still there."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(topic, OffsetSpec.earliest())

    def at_time(self, topic: str, timestamp_ms: int) -> Offsets:
        """The first records from this time on; the end, where there are none."""
        from confluent_kafka.admin import OffsetSpec

        found = self._offsets(topic, OffsetSpec.for_timestamp(timestamp_ms))
        ends = self.ends(topic)
        return Offsets(tuple(ends[p] if at < 0 else at for p, at in enumerate(found.next)))

    def holds(self, topic: str, position: Offsets) -> bool:
        """Whether everything from `position` on is there."""
        return self._gap(position, self.starts(topic), self.ends(topic)) is None

    def check_complete(
        self, topic: str, position: Offsets, who: str, way_out: str, *, ends: Offsets | None = None
    ) -> None:
        """Raise LogTruncated if records from `position` on are gone; `ends`, if they are known."""
        starts, ends = self.starts(topic), ends or self.ends(topic)
        partition = self._gap(position, starts, ends)
        if partition is not None:
            raise LogTruncated(
                f"{who} has read partition {partition} of topic {topic} up to offset "
                f"{position[partition]}, but the log now holds {starts[partition]} to "
                f"{ends[partition]}: records were deleted, or the topic was made anew. {way_out}"
            )

    def commit(self, group: str, topic: str, position: Offsets) -> None:
        """Tell a consumer group's position, for every tool that shows lag."""
        from confluent_kafka import KafkaException, TopicPartition

        if group not in self._consumers:
            fixed = {"group.id": group, "enable.auto.commit": False}
            self._consumers[group] = self._clients.consumer(fixed=fixed)
        offsets = [TopicPartition(topic, p, offset) for p, offset in enumerate(position.next)]
        with contextlib.suppress(KafkaException):  # the next one brings it up to date
            self._consumers[group].commit(offsets=offsets, asynchronous=True)

    def send_dead_letters(self, topic: str, target: str, letters: Iterable[DeadLetter]) -> None:
        """Send records with their reason and position, and wait until all are stored."""
        if target not in self._dead_letters:
            self._dead_letters[target] = DeadLetterProducer(
                self._clients, self._limit_of(target), self._response_seconds
            )
        try:
            self._dead_letters[target].send(topic, target, letters)
        except BaseException:
            # Not to be used again: what it has in flight belongs to the letters that failed.
            self._dead_letters.pop(target, None)
            raise

    def close(self) -> None:
        """Close every client that was opened."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()
        self._dead_letters.clear()
        self._admin = None

    @staticmethod
    def _gap(position: Offsets, starts: Offsets, ends: Offsets) -> int | None:
        """A partition in which the log does not go on from `position`."""
        partitions = range(max(len(position.next), len(ends.next)))
        inside = (starts[one] <= position[one] <= ends[one] for one in partitions)
        return next((one for one, whole in zip(partitions, inside, strict=True) if not whole), None)

    def _unavailable(self) -> KafkaUnavailable:
        return KafkaUnavailable(f"No Kafka broker answers at {self.servers}.")

    def _limit_of(self, topic: str) -> int:
        """The largest batch of records that a topic takes, in bytes."""
        from confluent_kafka import KafkaException

        try:
            return int(topic_config(self.admin, topic, self._response_seconds)["max.message.bytes"])
        except (KafkaException, KeyError):  # a cluster need not let everyone describe topics
            return DEFAULT_LIMIT

    def _partitions(self, topic: str) -> int:
        """How many partitions a topic has; its incarnation comes with the response."""
        from confluent_kafka import KafkaException

        try:
            found = describe_topic(self.admin, topic, self._response_seconds)
        except KafkaException:
            raise self._unavailable() from None
        if found is None:
            raise KafkaUnavailable(f"There is no topic {topic} at {self.servers}.")
        self._incarnations[topic] = found.topic_id.get_least_significant_bits() & (2**63 - 1)
        return len(found.partitions)

    def _offsets(self, topic: str, spec: Any) -> Offsets:
        from confluent_kafka import KafkaException

        places = [(topic, partition) for partition in range(self._partitions(topic))]
        try:
            found = list_offsets(
                self.admin, places, spec, committed=True, timeout_s=self._response_seconds
            )
        except KafkaException as error:
            raise KafkaUnavailable(
                f"The offsets of topic {topic} cannot be read: {error.args[0].str()}"
            ) from None
        return Offsets.of({partition: offset for (_, partition), offset in found.items()})
