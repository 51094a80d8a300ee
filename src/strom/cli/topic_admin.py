"""What can be done to topics, for the commands `topics` and `kafka-topics` alike."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strom.cli.connection import Connection
from strom.client.factories import RESPONSE_S

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

REQUEST_SECONDS = 30.0
CLUSTER_DEFAULT = -1


@dataclass(frozen=True)
class Partition:
    """Where one partition lives, and which offsets it holds."""

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    earliest: int | None = None
    latest: int | None = None


@dataclass(frozen=True)
class TopicDescription:
    """One topic as the cluster describes it."""

    name: str
    topic_id: str
    internal: bool
    partitions: tuple[Partition, ...]
    changed: Mapping[str, str]
    """The settings that do not have Kafka's default value, in the broker's order."""

    @property
    def replication_factor(self) -> int:
        """How many replicas the first partition has."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class TopicAdmin:
    """The topics of one cluster. Each failure is a KafkaException with the broker's own text."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client: AdminClient = connection.admin()

    def names(self) -> list[str]:
        """All topics, sorted."""
        return sorted(self._connection.metadata(self._client).topics)

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        settings: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Create a topic; what is not given follows the cluster's default."""
        from confluent_kafka.admin import NewTopic

        placement: dict[str, Any] = {"replication_factor": replication_factor or CLUSTER_DEFAULT}
        if assignment:
            placement = {"replica_assignment": [list(brokers) for brokers in assignment]}
            partitions = len(assignment)
        topic = NewTopic(
            name, partitions or CLUSTER_DEFAULT, config=dict(settings or {}), **placement
        )
        _finish(self._client.create_topics([topic], request_timeout=REQUEST_SECONDS))

    def delete(self, name: str) -> None:
        """Delete a topic with all its records."""
        _finish(self._client.delete_topics([name], request_timeout=REQUEST_SECONDS))

    def add_partitions(self, name: str, total: int) -> None:
        """Raise the number of partitions to `total`."""
        from confluent_kafka.admin import NewPartitions

        _finish(
            self._client.create_partitions(
                [NewPartitions(name, total)], request_timeout=REQUEST_SECONDS
            )
        )

    def alter(self, name: str, settings: Mapping[str, str], reset: Iterable[str] = ()) -> None:
        """Change settings of a topic, and reset others to the cluster's default."""
        from confluent_kafka.admin import (
            AlterConfigOpType,
            ConfigEntry,
            ConfigResource,
            ResourceType,
        )

        changes = [
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in settings.items()
        ] + [
            ConfigEntry(setting, None, incremental_operation=AlterConfigOpType.DELETE)
            for setting in reset
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
        _finish(self._client.incremental_alter_configs([resource], request_timeout=REQUEST_SECONDS))

    def describe(self, names: Sequence[str], *, offsets: bool = False) -> list[TopicDescription]:
        """Describe topics, sorted by name; a KafkaException if one does not exist."""
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import ConfigResource, ResourceType

        if not names:
            return []
        described = self._client.describe_topics(
            TopicCollection(list(names)), request_timeout=REQUEST_SECONDS
        )
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        configs = self._client.describe_configs(resources, request_timeout=REQUEST_SECONDS)
        changed = {
            resource.name: _not_default(future.result()) for resource, future in configs.items()
        }
        found = [future.result() for future in described.values()]
        ranges = self._offset_ranges(found) if offsets else {}
        return sorted(
            (_description(topic, changed[topic.name], ranges) for topic in found),
            key=lambda topic: topic.name,
        )

    def _offset_ranges(self, topics: Iterable[Any]) -> dict[tuple[str, int], tuple[int, int]]:
        wanted = [
            (topic.name, partition.id)
            for topic in topics
            for partition in topic.partitions
            if partition.leader is not None
        ]
        earliest, latest = offset_bounds(self._client, wanted)
        return {key: (earliest[key], latest[key]) for key in wanted}


def offset_bounds(
    client: "AdminClient", partitions: Sequence[tuple[str, int]], *, committed: bool = False
) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """The first offset, and the one after the last, of each partition."""
    from confluent_kafka.admin import OffsetSpec

    first = list_offsets(client, partitions, OffsetSpec.earliest(), committed=committed)
    last = list_offsets(client, partitions, OffsetSpec.latest(), committed=committed)
    return first, last


def list_offsets(
    client: "AdminClient",
    partitions: Sequence[tuple[str, int]],
    spec: Any,
    *,
    committed: bool = False,
) -> dict[tuple[str, int], int]:
    """One offset per partition, by librdkafka's OffsetSpec; -1 where there is none."""
    from confluent_kafka import IsolationLevel, TopicPartition

    if not partitions:
        return {}
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    futures = client.list_offsets(
        {TopicPartition(topic, number): spec for topic, number in partitions},
        isolation_level=level,
        request_timeout=2 * RESPONSE_S,
    )
    return {
        (partition.topic, partition.partition): future.result().offset
        for partition, future in futures.items()
    }


def _finish(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result()


def _not_default(entries: Mapping[str, Any]) -> dict[str, str]:
    from confluent_kafka.admin import ConfigSource

    return {
        name: entry.value
        for name, entry in entries.items()
        if entry.source != ConfigSource.DEFAULT_CONFIG.value and not entry.is_sensitive
    }


def _description(
    topic: Any, changed: Mapping[str, str], ranges: Mapping[tuple[str, int], tuple[int, int]]
) -> TopicDescription:
    partitions = []
    for partition in topic.partitions:
        earliest, latest = ranges.get((topic.name, partition.id), (None, None))
        partitions.append(
            Partition(
                number=partition.id,
                leader=partition.leader.id if partition.leader else None,
                replicas=tuple(node.id for node in partition.replicas),
                in_sync=tuple(node.id for node in partition.isr),
                earliest=earliest,
                latest=latest,
            )
        )
    return TopicDescription(
        name=topic.name,
        # librdkafka writes ids in plain base64, Kafka in the form that is safe in addresses.
        topic_id=str(topic.topic_id).translate(str.maketrans("+/", "-_")),
        internal=topic.is_internal,
        partitions=tuple(sorted(partitions, key=lambda partition: partition.number)),
        changed=changed,
    )
