"""The cluster's metadata as a state machine.

A command method reads the state, and raises ApiError or returns the record of the change. Only `replay`
changes the state, at start-up and at run time alike, so that both give the same result.
"""

import dataclasses
import uuid
from collections.abc import Iterator, Mapping

from strom.coordination.metadata.records import (
    BrokerConfigs,
    ClientMetricsConfigs,
    GroupConfigs,
    LeaderEpoch,
    MetadataRecord,
    ProducerIds,
    TopicDeleted,
    TopicMetadata,
)
from strom.model.client_metrics_settings import check_client_metrics_configs
from strom.model.errors import ApiError, ErrorCode
from strom.model.topic_settings import TopicSettings
from strom.model.topics import (
    METADATA_TOPIC,
    check_topic_name,
    collision_key,
    is_internal,
)

PRODUCER_ID_BLOCK = 1000
MAX_SUBSCRIPTIONS = 100
"""The limit of client metrics subscriptions: a client is compared with the patterns of each."""
MAX_PARTITIONS = 10_000
"""The limit per topic, against typing errors: every partition is a folder with open files."""


class ClusterMetadata:
    """Topics by name and id, dynamic broker and group configs, and the reserved producer ids."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicMetadata] = {}
        self._by_id: dict[uuid.UUID, TopicMetadata] = {}
        self._by_collision_key: dict[str, str] = {}
        self._deleting: dict[uuid.UUID, TopicMetadata] = {}
        self._broker_configs: dict[int | None, dict[str, str]] = {}
        self._group_configs: dict[str, dict[str, str]] = {}
        self._client_metrics_configs: dict[str, dict[str, str]] = {}
        self.next_producer_id = 0
        self.leader_epoch = 0

    # --- queries ------------------------------------------------------------------------------

    def topics(self) -> Iterator[TopicMetadata]:
        for name in sorted(self._topics):
            yield self._topics[name]

    def find(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def topic(self, name: str) -> TopicMetadata:
        """The topic of that name, or UNKNOWN_TOPIC_OR_PARTITION."""
        found = self._topics.get(name)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def unfinished_deletions(self) -> list[TopicMetadata]:
        """Topics that are deleted, but whose files may still exist."""
        return list(self._deleting.values())

    def broker_configs(self, node: int | None) -> Mapping[str, str]:
        """The dynamic configs of one broker, or of all brokers (None)."""
        return self._broker_configs.get(node, {})

    def group_configs(self, group: str) -> Mapping[str, str]:
        return self._group_configs.get(group, {})

    def groups_with_configs(self) -> list[str]:
        return sorted(self._group_configs)

    def client_metrics_configs(self, subscription: str) -> Mapping[str, str]:
        return self._client_metrics_configs.get(subscription, {})

    def client_metrics_subscriptions(self) -> list[str]:
        return sorted(self._client_metrics_configs)

    # --- commands ------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        topic_id: uuid.UUID,
        partitions: int,
        configs: Mapping[str, str],
        defaults: TopicSettings,
    ) -> TopicMetadata:
        """The record of a new topic."""
        check_topic_name(name)
        if name == METADATA_TOPIC:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"The name {name} is reserved for the broker."
            )
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
        return TopicMetadata(name, topic_id, partitions, dict(configs))

    def add_partitions(self, name: str, total: int) -> TopicMetadata:
        """The record of a topic with more partitions; fewer are rejected."""
        topic = self.topic(name)
        if is_internal(name):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{name} cannot get more partitions: keys are mapped to partitions by their number.",
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
    ) -> TopicMetadata:
        """The record of a topic with exactly these configs."""
        topic = self.topic(name)
        defaults.override(configs)
        return dataclasses.replace(topic, configs=dict(configs))

    def delete_topic(self, name: str) -> TopicMetadata:
        """The record that deletes a topic; a tombstone follows when its files are removed."""
        return dataclasses.replace(self.topic(name), deleting=True)

    def set_client_metrics_configs(
        self, subscription: str, configs: Mapping[str, str]
    ) -> ClientMetricsConfigs:
        """The record of a client metrics subscription with exactly these configs."""
        check_client_metrics_configs(configs)
        known = self._client_metrics_configs
        if configs and subscription not in known and len(known) >= MAX_SUBSCRIPTIONS:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {len(known)} client metrics subscriptions, which is the limit. "
                "Delete one first.",
            )
        return ClientMetricsConfigs(subscription, dict(configs))

    def reserve_producer_ids(self) -> ProducerIds:
        """The record that reserves the next block of producer ids."""
        return ProducerIds(self.next_producer_id + PRODUCER_ID_BLOCK)

    # --- replay --------------------------------------------------------------------------------

    def replay(self, record: MetadataRecord) -> None:
        match record:
            case TopicMetadata(deleting=True):
                self._remove(record.id)
                self._deleting[record.id] = record
            case TopicMetadata():
                self._topics[record.name] = record
                self._by_id[record.id] = record
                self._by_collision_key[collision_key(record.name)] = record.name
            case TopicDeleted():
                self._remove(record.id)
                self._deleting.pop(record.id, None)
            case BrokerConfigs():
                self._broker_configs[record.node] = record.configs
            case GroupConfigs():
                self._group_configs[record.group] = record.configs
                if not record.configs:
                    del self._group_configs[record.group]
            case ClientMetricsConfigs():
                self._client_metrics_configs[record.subscription] = record.configs
                if not record.configs:
                    del self._client_metrics_configs[record.subscription]
            case ProducerIds():
                self.next_producer_id = record.next_id
            case LeaderEpoch():
                self.leader_epoch = record.epoch

    def _remove(self, topic_id: uuid.UUID) -> None:
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
            f"{count} partitions exceed the limit of {MAX_PARTITIONS} partitions per topic.",
        )
