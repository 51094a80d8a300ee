"""ConsumerGroupDescribe, api key 69: epochs, members and assignments of consumer groups.

Behaviour: groups of other types are not found. Versions: 1 the protocol of each member.
"""

from collections.abc import Iterable

from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.records import ConsumerMember, by_topic
from strom.coordination.groups.coordinator import GroupCoordinator
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import GROUP_OPERATIONS, Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k69_consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from strom.wire.kafka.schema import Uuid

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


@handler(
    ConsumerGroupDescribeRequest,
    Needs(Operation.DESCRIBE, Resource.GROUP),
    Needs(Operation.DESCRIBE, Resource.TOPIC),
)
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: Context
) -> ConsumerGroupDescribeResponse:
    # As in Kafka, the response repeats a group that the request repeats.
    described: dict[str, DescribedGroup] = {}
    pause = context.long_work.pauses()
    for name in request.group_ids:
        if name not in described:
            described[name] = await _describe(name, context)
        await pause()
    groups = [described[name] for name in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


async def _describe(name: str, context: Context) -> DescribedGroup:
    try:
        if not name:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return await context.groups.read(name, lambda groups: _find(name, groups, context))
    except ApiError as error:
        return DescribedGroup(group_id=name, error_code=error.code)


def _find(name: str, groups: GroupCoordinator, context: Context) -> DescribedGroup:
    group = groups.find_consumer(name)
    if group is not None:
        return _described(group, context)
    exists = groups.find(name) is not None
    return DescribedGroup(
        group_id=name,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {name} {'is not a consumer group.' if exists else 'not found.'}",
    )


def _described(group: ConsumerGroup, context: Context) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor(context.broker.settings.group_consumer_assignors[0]),
        members=[_member(member, group, context) for member in group.members.values()],
    )


def _member(member: ConsumerMember, group: ConsumerGroup, context: Context) -> Member:
    subscription = member.subscription
    return Member(
        member_id=member.id,
        instance_id=subscription.instance,
        rack_id=subscription.rack,
        member_epoch=member.current.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topics),
        subscribed_topic_regex=subscription.pattern,
        # Partitions that are not revoked yet are still assigned.
        assignment=to_described_assignment(
            by_topic({**member.current.assigned, **member.current.revoking}), context
        ),
        target_assignment=to_described_assignment(by_topic(group.target(member.id)), context),
        member_type=CONSUMER_MEMBER if subscription.classic is None else CLASSIC_MEMBER,
    )


def to_described_assignment(
    topics: Iterable[tuple[Uuid, Iterable[int]]], context: Context
) -> Assignment:
    """Partitions by topic, in consumer groups and share groups; deleted topics have no name and are
    omitted.
    """
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=list(indexes))
            for topic_id, indexes in topics
            if (topic := context.broker.topics_image.find_id(topic_id)) is not None
        ]
    )
