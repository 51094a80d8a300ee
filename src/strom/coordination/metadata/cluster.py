"""The cluster's metadata as a state machine.

A command method looks at the state, raises ApiError or returns the records that would make the change;
it changes nothing. `replay` alone changes state, in the same way at start-up and at run time.
"""

import dataclasses
import uuid
from collections.abc import Iterator, Mapping

from strom.coordination.metadata.records import (
    BrokerConfigs,
    GroupConfigs,
    LeaderEpoch,
    MetadataRecord,
    ProducerIds,
    Topic,
    TopicGone,
)
from strom.model.errors import ApiError, ErrorCode
from strom.model.topic_settings import TopicSettings
from strom.model.topics import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    check_topic_name,
    collision_key,
)

PRODUCER_ID_BLOCK = 1000
MAX_PARTITIONS = 10_000
"""More than this in one topic is a slip of the finger: every partition is a folder with open files."""


class ClusterMetadata:
    """Topics by name and id, broker settings made at run time, and the producer ids handed out."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        self._by_collision_key: dict[str, str] = {}
        self._deleting: dict[uuid.UUID, Topic] = {}
        self._broker_configs: dict[int | None, dict[str, str]] = {}
        self._group_configs: dict[str, dict[str, str]] = {}
        self.next_producer_id = 0
        self.leader_epoch = 0

    # --- looking -------------------------------------------------------------------------------

    def topics(self) -> Iterator[Topic]:
        """Every topic, by name."""
        for name in sorted(self._topics):
            yield self._topics[name]

    def find(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._topics.get(name)

    def find_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """The topic with that id."""
        return self._by_id.get(topic_id)

    def topic(self, name: str) -> Topic:
        """The topic of that name, or UNKNOWN_TOPIC_OR_PARTITION."""
        found = self._topics.get(name)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def unfinished_deletions(self) -> list[Topic]:
        """Topics whose deletion was decided but whose files may still be there."""
        return list(self._deleting.values())

    def broker_configs(self, node: int | None) -> Mapping[str, str]:
        """What was set at run time for one broker, or for all (None)."""
        return self._broker_configs.get(node, {})

    def group_configs(self, group: str) -> Mapping[str, str]:
        """What was set for a group."""
        return self._group_configs.get(group, {})

    # --- commands ------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        topic_id: uuid.UUID,
        partitions: int,
        configs: Mapping[str, str],
        defaults: TopicSettings,
    ) -> Topic:
        """The record of a new topic."""
        check_topic_name(name)
        if name == METADATA_TOPIC:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"The name {name} is the broker's own.")
        if name in self._topics:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        twin = self._by_collision_key.get(collision_key(name))
        if twin is not None:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {twin}",
            )
        _check_partition_count(partitions)
        defaults.override(configs)
        return Topic(name, topic_id, partitions, dict(configs))

    def add_partitions(self, name: str, total: int) -> Topic:
        """The record of a topic with more partitions than it has."""
        topic = self.topic(name)
        if name in INTERNAL_TOPICS:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{name} cannot grow: the number of its partitions tells where things are in it.",
            )
        if total == topic.partitions:
            raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {total} partition(s).")
        if total < topic.partitions:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {name} currently has {topic.partitions} partition(s); "
                f"{total} would not be an increase.",
            )
        _check_partition_count(total)
        return dataclasses.replace(topic, partitions=total)

    def set_topic_configs(
        self, name: str, configs: Mapping[str, str], defaults: TopicSettings
    ) -> Topic:
        """The record of a topic that has exactly these configs of its own."""
        topic = self.topic(name)
        defaults.override(configs)
        return dataclasses.replace(topic, configs=dict(configs))

    def delete_topic(self, name: str) -> Topic:
        """The record that decides a topic's end; TopicGone follows when its files are gone."""
        return dataclasses.replace(self.topic(name), deleting=True)

    def reserve_producer_ids(self) -> ProducerIds:
        """The record that hands out the next block of producer ids."""
        return ProducerIds(self.next_producer_id + PRODUCER_ID_BLOCK)

    # --- the only mutator ----------------------------------------------------------------------

    def replay(self, record: MetadataRecord) -> None:
        """Take a record that is in the log into the state."""
        match record:
            case Topic(deleting=True):
                self._forget(record.id)
                self._deleting[record.id] = record
            case Topic():
                self._topics[record.name] = record
                self._by_id[record.id] = record
                self._by_collision_key[collision_key(record.name)] = record.name
            case TopicGone():
                self._forget(record.id)
                self._deleting.pop(record.id, None)
            case BrokerConfigs():
                self._broker_configs[record.node] = record.configs
            case GroupConfigs():
                self._group_configs[record.group] = record.configs
                if not record.configs:
                    del self._group_configs[record.group]
            case ProducerIds():
                self.next_producer_id = record.next_id
            case LeaderEpoch():
                self.leader_epoch = record.epoch

    def _forget(self, topic_id: uuid.UUID) -> None:
        topic = self._by_id.pop(topic_id, None)
        if topic is not None:
            del self._topics[topic.name]
            del self._by_collision_key[collision_key(topic.name)]


def _check_partition_count(count: int) -> None:
    if count < 1:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if count > MAX_PARTITIONS:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{count} partitions are too many: a topic may have {MAX_PARTITIONS}.",
        )
