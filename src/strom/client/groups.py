"""The admin calls for consumer groups: list, describe, lag, reset, delete."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from strom.client.factories import RESPONSE_S, KafkaClients
from strom.client.kafka_errors import COORDINATOR_NOT_READY, error_name
from strom.client.offsets import list_offsets
from strom.client.protocol_client import ProtocolClient
from strom.client.topics import REQUEST_SECONDS
from strom.model.errors import ErrorCode, UserError
from strom.model.topics import TopicPartition
from strom.wire.kafka.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from strom.wire.kafka.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from strom.wire.kafka.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "EMPTY": "Empty",
    "DEAD": "Dead",
}
"""librdkafka's names of group states, and Kafka's."""
_CODES = {int(code): code for code in ErrorCode}
PAUSE_SECONDS = 0.1
RESETTABLE = frozenset({"Empty", "Dead"})


@dataclass(frozen=True)
class ListedGroup:
    """A group in the response to ListGroups."""

    name: str
    state: str
    type: str


@dataclass(frozen=True)
class GroupMember:
    """A member with its assigned partitions."""

    id: str
    instance: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    epoch: int | None = None
    """The member epoch (KIP-848); None in a classic group, or where only librdkafka can authenticate."""
    target: tuple[TopicPartition, ...] | None = None
    """The target assignment, in a consumer group."""


@dataclass(frozen=True)
class GroupDescription:
    """A group as its coordinator describes it."""

    name: str
    state: str
    assignor: str
    coordinator: str
    coordinator_id: int
    members: tuple[GroupMember, ...]
    type: str = "Classic"
    epoch: int | None = None
    target_epoch: int | None = None

    @property
    def exists(self) -> bool:
        """Whether the group exists: a coordinator describes any other as dead."""
        return self.state != "Dead"


@dataclass(frozen=True)
class Committed:
    """A group's committed offset in a partition."""

    offset: int
    leader_epoch: int | None = None


@dataclass(frozen=True)
class PartitionLag:
    """Committed offset, end offset and member of a partition; None where unknown."""

    partition: TopicPartition | None
    current: int | None = None
    leader_epoch: int | None = None
    end: int | None = None
    member: GroupMember | None = None

    @property
    def lag(self) -> int | None:
        """How many offsets the group is behind; None if unknown."""
        if self.current is None or self.end is None:
            return None
        return max(self.end - self.current, 0)


class GroupAdmin:
    """The groups of one cluster. Each failure is a KafkaException with the broker's message."""

    def __init__(self, connection: KafkaClients) -> None:
        self._connection = connection
        self.client: AdminClient = connection.admin()

    def groups(self) -> list[ListedGroup]:
        """All groups, sorted by name."""
        listed = self.client.list_consumer_groups(request_timeout=REQUEST_SECONDS).result()
        for error in listed.errors:
            raise error
        found = [
            ListedGroup(one.group_id, STATES.get(one.state.name, "Unknown"), one.type.name.title())
            for one in listed.valid
        ]
        if any(group.state == "Unknown" for group in found) and (wire := self._wire()):
            states = _states(wire)
            found = [replace(one, state=states.get(one.name, one.state)) for one in found]
        return sorted(found, key=lambda group: group.name)

    def _wire(self) -> ProtocolClient | None:
        """None where only librdkafka can authenticate, as with Kerberos."""
        try:
            return self._connection.protocol_client()
        except UserError:
            return None

    def describe(self, name: str) -> GroupDescription:
        """Describe one group; the state is Dead if it does not exist."""
        described = _result(
            lambda: self.client.describe_consumer_groups([name], request_timeout=REQUEST_SECONDS)
        )
        node = described.coordinator
        group = GroupDescription(
            name=name,
            state=STATES.get(described.state.name, "Unknown"),
            assignor=described.partition_assignor or "",
            coordinator=f"{node.host}:{node.port}",
            coordinator_id=node.id,
            members=tuple(_member(one) for one in described.members),
            type=described.type.name.title(),
        )
        if group.type == "Consumer" and (wire := self._wire()):
            return _with_epochs(group, wire)
        return group

    def delete_offsets(
        self, name: str, partitions: Sequence[TopicPartition]
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
        """Delete committed offsets; the error code of the group, and of each partition."""
        wire = self._connection.protocol_client()
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for one in partitions:
            topic = topics.setdefault(one.topic, OffsetDeleteRequestTopic(name=one.topic))
            wanted = OffsetDeleteRequestPartition(partition_index=one.partition)
            topic.partitions.append(wanted)
        request = OffsetDeleteRequest(group_id=name, topics=list(topics.values()))
        response = wire.call_coordinator(
            name, lambda node: wire.call(request, OffsetDeleteResponse, node)
        )
        code = _CODES[response.error_code]
        codes = {
            TopicPartition(topic.name, one.partition_index): _CODES[one.error_code]
            for topic in response.topics
            for one in topic.partitions
        }
        return code, {one: code or codes.get(one, code) for one in partitions}

    def committed(self, name: str) -> dict[TopicPartition, Committed]:
        """The committed offsets of a group; empty if it does not exist."""
        return committed_offsets(self.client, name)

    def lags(self, group: GroupDescription) -> list[PartitionLag]:
        """Every partition that the group reads or has read, and a row for each idle member."""
        committed = self.committed(group.name)
        owners = {one: member for member in group.members for one in member.partitions}
        partitions = sorted({*committed, *owners})
        ends = self._ends(partitions)
        rows = [
            PartitionLag(
                one,
                committed[one].offset if one in committed else None,
                committed[one].leader_epoch if one in committed else None,
                ends.get(one),
                owners.get(one),
            )
            for one in partitions
        ]
        idle = [member for member in group.members if not member.partitions]
        return rows + [PartitionLag(None, member=member) for member in idle]

    def set_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the committed offsets of a group without members."""
        alter_offsets(self.client, name, offsets)

    def delete(self, name: str) -> None:
        """Delete a group without members, with its offsets."""
        delete_group(self.client, name)

    def partitions_of(self, topics: Iterable[str]) -> dict[str, list[TopicPartition]]:
        """The partitions of those topics that exist."""
        known = self._connection.metadata(self.client).topics
        return {
            topic: [TopicPartition(topic, number) for number in sorted(known[topic].partitions)]
            for topic in topics
            if topic in known
        }

    def _ends(self, partitions: Sequence[TopicPartition]) -> dict[tuple[str, int], int]:
        from confluent_kafka.admin import OffsetSpec

        known = self.partitions_of({one.topic for one in partitions})
        wanted = [one for one in partitions if one in known.get(one.topic, ())]
        return list_offsets(self.client, wanted, OffsetSpec.latest())


def committed_offsets(client: "AdminClient", name: str) -> dict[TopicPartition, Committed]:
    """The committed offsets of a group; empty if it does not exist."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    wanted = [ConsumerGroupTopicPartitions(name)]
    found = _result(
        lambda: client.list_consumer_group_offsets(wanted, request_timeout=REQUEST_SECONDS)
    )
    return {
        TopicPartition(one.topic, one.partition): Committed(one.offset, one.leader_epoch)
        for one in found.topic_partitions
        if one.offset >= 0
    }


def alter_offsets(client: "AdminClient", name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set the committed offsets of a group without members."""
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka import TopicPartition as OffsetOf

    partitions = [OffsetOf(one.topic, one.partition, offset) for one, offset in offsets.items()]
    wanted = [ConsumerGroupTopicPartitions(name, partitions)]
    done = _result(
        lambda: client.alter_consumer_group_offsets(wanted, request_timeout=REQUEST_SECONDS)
    )
    _raise_first(one.error for one in done.topic_partitions)


def delete_group(client: "AdminClient", name: str) -> None:
    """Delete a group without members, with its offsets."""
    _result(lambda: client.delete_consumer_groups([name], request_timeout=REQUEST_SECONDS))


def _result(request: Callable[[], Mapping[str, Any]]) -> Any:
    """The result of one group's future; retried while its coordinator is loading or moving."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + RESPONSE_S
    while True:
        (future,) = request().values()
        try:
            return future.result()
        except KafkaException as error:
            if error_name(error) not in COORDINATOR_NOT_READY or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_SECONDS)


def _member(described: Any) -> GroupMember:
    return GroupMember(
        id=described.member_id,
        instance=described.group_instance_id,
        client_id=described.client_id,
        host=described.host,
        partitions=_partitions(described.assignment) or (),
        target=_partitions(described.target_assignment),
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...] | None:
    if assignment is None:
        return None
    found = (TopicPartition(one.topic, one.partition) for one in assignment.topic_partitions)
    return tuple(sorted(found))


def _states(wire: ProtocolClient) -> dict[str, str]:
    """The states of all groups, including those that librdkafka does not know."""
    return {
        group.group_id: group.group_state
        for node in wire.nodes()
        for group in wire.call(ListGroupsRequest(), ListGroupsResponse, node).groups
    }


def _with_epochs(group: GroupDescription, wire: ProtocolClient) -> GroupDescription:
    """Add what librdkafka does not report of a consumer group: epochs, and states unknown to it."""
    request = ConsumerGroupDescribeRequest(group_ids=[group.name])
    (described,) = wire.call_coordinator(
        group.name, lambda node: wire.call(request, ConsumerGroupDescribeResponse, node)
    ).groups
    if described.error_code:
        return group
    epochs = {member.member_id: member.member_epoch for member in described.members}
    return replace(
        group,
        state=described.group_state,
        epoch=described.group_epoch,
        target_epoch=described.assignment_epoch,
        members=tuple(replace(one, epoch=epochs.get(one.id)) for one in group.members),
    )


def _raise_first(errors: Iterable[Any]) -> None:
    from confluent_kafka import KafkaException

    for error in errors:
        if error is not None:
            raise KafkaException(error)
