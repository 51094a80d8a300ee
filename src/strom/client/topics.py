"""The admin calls for topics: create, describe, alter, delete."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strom.client.factories import KafkaClients
from strom.client.kafka_errors import error_name
from strom.client.offsets import PAUSE_S, offset_bounds

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

REQUEST_SECONDS = 30.0
CLUSTER_DEFAULT = -1


@dataclass(frozen=True)
class Partition:
    """The replicas of a partition, and the offsets it holds."""

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

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self._client: AdminClient = clients.admin()

    def names(self) -> list[str]:
        """The names of all topics, sorted."""
        return sorted(self._clients.metadata(self._client).topics)

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


def describe_topic(client: "AdminClient", name: str, timeout_s: float) -> Any:
    """confluent-kafka's TopicDescription; None if there is no such topic. This creates none."""
    from confluent_kafka import KafkaException, TopicCollection

    try:
        return client.describe_topics(TopicCollection([name]), request_timeout=timeout_s)[
            name
        ].result()
    except KafkaException as error:
        if error_name(error) == "UNKNOWN_TOPIC_OR_PART":
            return None
        raise


def create_topic(
    client: "AdminClient",
    name: str,
    *,
    partitions: int = CLUSTER_DEFAULT,
    replication_factor: int = CLUSTER_DEFAULT,
    config: Mapping[str, str] | None = None,
    timeout_s: float = REQUEST_SECONDS,
) -> bool:
    """Create a topic; False if it exists already."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    new = NewTopic(name, partitions, replication_factor, config=dict(config or {}))
    try:
        _finish(client.create_topics([new], request_timeout=timeout_s))
    except KafkaException as error:
        if error_name(error) == "TOPIC_ALREADY_EXISTS":
            return False
        raise
    return True


def wait_for_topic(client: "AdminClient", name: str, timeout_s: float) -> Any:
    """The description of a topic that was just created: brokers of a cluster learn of it one by one.

    None if it cannot be seen in time.
    """
    deadline = time.monotonic() + timeout_s
    while (found := describe_topic(client, name, timeout_s)) is None or not found.partitions:
        if time.monotonic() > deadline:
            return None
        time.sleep(PAUSE_S)
    return found


def topic_id_text(topic_id: Any) -> str:
    """A topic's id as Kafka's tools print it, which fits into URLs and file names.

    librdkafka writes plain base64.
    """
    return str(topic_id).translate(str.maketrans("+/", "-_"))


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
        topic_id=topic_id_text(topic.topic_id),
        internal=topic.is_internal,
        partitions=tuple(sorted(partitions, key=lambda partition: partition.number)),
        changed=changed,
    )
