"""DescribeShareGroupOffsets, api key 90: the start offsets of share groups.

Behaviour: a partition without state has offset -1. Versions: 1 lag.
"""

from strom.broker.share_groups import SharePosition
from strom.broker.share_sessions import TopicIdPartition
from strom.coordination.groups.share.protocol import ShareGroup
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from strom.wire.kafka.schema import NO_UUID

NOWHERE = SharePosition(start_offset=-1, leader_epoch=0, lag=-1)


@handler(
    DescribeShareGroupOffsetsRequest,
    Needs(Operation.DESCRIBE, Resource.GROUP),
    Needs(Operation.DESCRIBE, Resource.TOPIC),
)
async def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, context: Context
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[await _describe(group, context) for group in request.groups]
    )


async def _describe(
    group: DescribeShareGroupOffsetsRequestGroup, context: Context
) -> DescribeShareGroupOffsetsResponseGroup:
    topics = group.topics
    if topics is None:
        topics = _all_topics(context.groups.look().find_share(group.group_id), context)
    try:
        answers = [await _topic(group.group_id, topic, context) for topic in topics]
    except ApiError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group.group_id, error_code=error.code, error_message=error.message
        )
    return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=answers)


def _all_topics(
    group: ShareGroup | None, context: Context
) -> list[DescribeShareGroupOffsetsRequestTopic]:
    known = group.known_topics.values() if group is not None else ()
    return [
        DescribeShareGroupOffsetsRequestTopic(
            topic_name=topic.name, partitions=list(range(topic.partitions))
        )
        for topic in known
        if context.broker.topics_image.find_id(topic.id) is not None
    ]


async def _topic(
    group: str, topic: DescribeShareGroupOffsetsRequestTopic, context: Context
) -> DescribeShareGroupOffsetsResponseTopic:
    facts = context.broker.topics_image.find(topic.topic_name)
    places: dict[TopicIdPartition, SharePosition] = {}
    if facts is not None:
        wanted = [(facts.id, index) for index in topic.partitions]
        places = await context.shares.places(group, wanted)
    topic_id = NO_UUID if facts is None else facts.id
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic_id,
        partitions=[
            _partition(index, places.get((topic_id, index), NOWHERE)) for index in topic.partitions
        ],
    )


def _partition(index: int, place: SharePosition) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=place.start_offset,
        leader_epoch=place.leader_epoch,
        lag=place.lag,
        error_code=ErrorCode.NONE,
    )
