"""Kafka as pipelines use it: positions, topics, dead letters and committed offsets."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from strom.client.client_properties import to_java
from strom.client.cluster import cluster_id, topic_config
from strom.client.connection_settings import ConnectionSettings
from strom.client.factories import KafkaClients
from strom.client.offsets import list_offsets
from strom.client.topics import create_topic, describe_topic, wait_for_topic
from strom.model.errors import UserError
from strom.pipelines.failures import TransientError
from strom.pipelines.layers.dead_letters import DEFAULT_LIMIT, DeadLetter, DeadLetterProducer
from strom.pipelines.offsets import TopicOffsets

REQUEST_TIMEOUT_S = 15.0
CLIENT_ID = "strom-views"
KEEP_FOREVER = {"retention.ms": "-1"}


class LogTruncated(UserError):
    """Records that a view has not read are no longer in the log."""


class KafkaUnavailable(TransientError):
    """Kafka does not respond, or a topic is not available."""


class KafkaLog:
    """A connection to a Kafka cluster; its clients are created lazily."""

    def __init__(
        self,
        servers: str,
        settings: Mapping[str, str] | None = None,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self.servers = servers
        self._timeout_s = timeout_s
        connection = ConnectionSettings(servers, settings or {})
        self._clients = KafkaClients(connection, CLIENT_ID)
        self.java_settings = to_java(connection.properties)
        """TLS and SASL for Spark's connector."""
        self._admin: AdminClient | None = None
        self._dead_letters: dict[str, DeadLetterProducer] = {}
        self._consumers: dict[str, Consumer] = {}
        self._incarnations: dict[str, int] = {}

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = self._clients.admin()
        return self._admin

    def topics(self) -> dict[str, int]:
        """The number of partitions of every topic."""
        try:
            found = self.admin.list_topics(timeout=self._timeout_s)
        except KafkaException:
            raise self._unavailable() from None
        return {name: len(topic.partitions) for name, topic in found.topics.items()}

    def cluster_id(self) -> str | None:
        """The cluster id; None if the brokers are too old to have one."""
        try:
            return cluster_id(self.admin, self._timeout_s)
        except KafkaException:
            raise self._unavailable() from None

    def incarnation(self, topic: str) -> int:
        """A number derived from the topic id, unlike that of a recreated topic; 0 without topic ids.

        It is the one of the last request for offsets.
        """
        if topic not in self._incarnations:
            self._partitions(topic)
        return self._incarnations[topic]

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with unlimited retention; a no-op if it exists."""
        create_topic(
            self.admin, topic, partitions=partitions, config=KEEP_FOREVER, timeout_s=self._timeout_s
        )
        wait_for_topic(self.admin, topic, self._timeout_s)

    def ends(self, topic: str) -> TopicOffsets:
        """The last stable offsets: records of open transactions are not included."""
        return self._offsets(topic, OffsetSpec.latest())

    def starts(self, topic: str) -> TopicOffsets:
        """The log start offsets."""
        return self._offsets(topic, OffsetSpec.earliest())

    def at_time(self, topic: str, timestamp_ms: int) -> TopicOffsets:
        """The offsets of the first records at or after a timestamp; the end if there are none."""
        found = self._offsets(topic, OffsetSpec.for_timestamp(timestamp_ms))
        ends = self.ends(topic)
        return TopicOffsets(tuple(ends[p] if at < 0 else at for p, at in enumerate(found.next)))

    def holds(self, topic: str, position: TopicOffsets) -> bool:
        """Whether the log has all records from `position` on."""
        return self._gap(position, self.starts(topic), self.ends(topic)) is None

    def check_complete(
        self,
        topic: str,
        position: TopicOffsets,
        reader: str,
        remedy: str,
        *,
        ends: TopicOffsets | None = None,
    ) -> None:
        """Raise LogTruncated if records from `position` on are missing; pass `ends` if known."""
        starts, ends = self.starts(topic), ends or self.ends(topic)
        partition = self._gap(position, starts, ends)
        if partition is not None:
            raise LogTruncated(
                f"{reader} has read partition {partition} of topic {topic} up to offset "
                f"{position[partition]}, but the log now holds {starts[partition]} to "
                f"{ends[partition]}: records were deleted, or the topic was recreated. {remedy}"
            )

    def commit(self, group: str, topic: str, position: TopicOffsets) -> None:
        """Commit the offsets of a consumer group, for tools that show its lag."""
        if group not in self._consumers:
            fixed = {"group.id": group, "enable.auto.commit": False}
            self._consumers[group] = self._clients.consumer(fixed=fixed)
        offsets = [TopicPartition(topic, p, offset) for p, offset in enumerate(position.next)]
        with contextlib.suppress(KafkaException):  # the next commit includes it
            self._consumers[group].commit(offsets=offsets, asynchronous=True)

    def send_dead_letters(self, topic: str, target: str, letters: Iterable[DeadLetter]) -> None:
        """Produce dead letters with their reasons and positions, and wait until all are acknowledged."""
        if target not in self._dead_letters:
            self._dead_letters[target] = DeadLetterProducer(
                self._clients, self._limit_of(target), self._timeout_s
            )
        try:
            self._dead_letters[target].send(topic, target, letters)
        except BaseException:
            # Do not reuse the producer: its records in flight belong to the failed call.
            self._dead_letters.pop(target, None)
            raise

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()
        self._dead_letters.clear()
        self._admin = None

    @staticmethod
    def _gap(position: TopicOffsets, starts: TopicOffsets, ends: TopicOffsets) -> int | None:
        """The first partition whose log does not contain `position`."""
        partitions = range(max(len(position.next), len(ends.next)))
        return next((p for p in partitions if not starts[p] <= position[p] <= ends[p]), None)

    def _unavailable(self) -> KafkaUnavailable:
        return KafkaUnavailable(f"No Kafka broker responds at {self.servers}.")

    def _limit_of(self, topic: str) -> int:
        """The `max.message.bytes` of a topic."""
        try:
            return int(topic_config(self.admin, topic, self._timeout_s)["max.message.bytes"])
        except (KafkaException, KeyError):  # the cluster may deny DescribeConfigs
            return DEFAULT_LIMIT

    def _partitions(self, topic: str) -> int:
        """The number of partitions; also stores the incarnation, which is in the same response."""
        try:
            found = describe_topic(self.admin, topic, self._timeout_s)
        except KafkaException:
            raise self._unavailable() from None
        if found is None:
            raise KafkaUnavailable(f"Topic {topic} does not exist at {self.servers}.")
        self._incarnations[topic] = found.topic_id.get_least_significant_bits() & (2**63 - 1)
        return len(found.partitions)

    def _offsets(self, topic: str, spec: Any) -> TopicOffsets:
        places = [(topic, partition) for partition in range(self._partitions(topic))]
        try:
            found = list_offsets(
                self.admin, places, spec, committed=True, timeout_s=self._timeout_s
            )
        except KafkaException as error:
            raise KafkaUnavailable(
                f"Listing the offsets of topic {topic} failed: {error.args[0].str()}"
            ) from None
        return TopicOffsets.of({partition: offset for (_, partition), offset in found.items()})
