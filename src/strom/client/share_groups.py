"""The admin calls for share groups, in Kafka's protocol: librdkafka has none yet."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.client.broker_connection import check
from strom.client.factories import KafkaClients
from strom.client.groups import GroupDescription, GroupMember, ListedGroup
from strom.client.protocol_client import BrokerNode
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition
from strom.wire.kafka.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from strom.wire.kafka.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from strom.wire.kafka.messages.k77_share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from strom.wire.kafka.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from strom.wire.kafka.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from strom.wire.kafka.schema import Versions

SHARE = "share"
LIST_GROUPS_BY_TYPE = Versions(5, 5)
OFFSETS_WITH_LAG = Versions(1, 1)


@dataclass(frozen=True)
class ShareProgress:
    """How far a share group has come in a partition; None if it has not started."""

    start: int | None
    lag: int | None


class ShareGroupAdmin:
    """The share groups of one cluster. Each failure is an ApiError with the broker's code."""

    def __init__(self, connection: KafkaClients) -> None:
        self._wire = connection.protocol_client()

    def groups(self) -> list[ListedGroup]:
        """All share groups, sorted by name."""
        found = {}
        request = ListGroupsRequest(types_filter=[SHARE])
        for node in self._wire.nodes():
            response = self._wire.call(
                request, ListGroupsResponse, node, versions=LIST_GROUPS_BY_TYPE
            )
            check(response.error_code)
            for one in response.groups:
                found[one.group_id] = ListedGroup(one.group_id, one.group_state, "Share")
        return [found[name] for name in sorted(found)]

    def describe(self, name: str) -> GroupDescription:
        """Describe a share group; the state is Dead if it does not exist."""

        def call(node: BrokerNode) -> tuple[BrokerNode, DescribedGroup]:
            request = ShareGroupDescribeRequest(group_ids=[name])
            response = self._wire.call(request, ShareGroupDescribeResponse, node)
            (described,) = response.groups
            if described.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                check(described.error_code, described.error_message)
            return node, described

        node, found = self._wire.call_coordinator(name, call)
        return GroupDescription(
            name=name,
            state="Dead" if found.error_code else found.group_state,
            assignor=found.assignor_name,
            coordinator=f"{node.host}:{node.port}",
            coordinator_id=node.id,
            members=tuple(_member(member) for member in found.members),
            type="Share",
        )

    def progress(self, name: str) -> dict[TopicPartition, ShareProgress]:
        """Start offset and lag in every partition that the group reads or has read."""

        def request_offsets(node: BrokerNode) -> dict[TopicPartition, ShareProgress]:
            group = DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None)
            request = DescribeShareGroupOffsetsRequest(groups=[group])
            response = self._wire.call(
                request, DescribeShareGroupOffsetsResponse, node, versions=OFFSETS_WITH_LAG
            )
            (found,) = response.groups
            check(found.error_code, found.error_message)
            return {
                TopicPartition(topic.topic_name, one.partition_index): ShareProgress(
                    None if one.start_offset < 0 else one.start_offset,
                    None if one.start_offset < 0 else one.lag,
                )
                for topic in found.topics
                for one in topic.partitions
            }

        return dict(sorted(self._wire.call_coordinator(name, request_offsets).items()))

    def set_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the start offsets of a group without members."""
        topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
        for (topic, index), offset in offsets.items():
            wanted = topics.setdefault(topic, AlterShareGroupOffsetsRequestTopic(topic_name=topic))
            wanted.partitions.append(
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
            )

        def call(node: BrokerNode) -> None:
            request = AlterShareGroupOffsetsRequest(group_id=name, topics=list(topics.values()))
            response = self._wire.call(request, AlterShareGroupOffsetsResponse, node)
            check(response.error_code, response.error_message)
            for topic in response.responses:
                for one in topic.partitions:
                    check(one.error_code, one.error_message)

        self._wire.call_coordinator(name, call)

    def delete(self, name: str) -> None:
        """Delete a group without members, with its offsets."""

        def call(node: BrokerNode) -> None:
            request = DeleteGroupsRequest(groups_names=[name])
            response = self._wire.call(request, DeleteGroupsResponse, node)
            check(response.results[0].error_code)

        self._wire.call_coordinator(name, call)


def _member(member: Member) -> GroupMember:
    assigned = sorted(
        TopicPartition(topic.topic_name, index)
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    )
    return GroupMember(
        member.member_id, None, member.client_id, member.client_host, tuple(assigned)
    )
