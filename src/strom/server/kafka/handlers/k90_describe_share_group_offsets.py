"""DescribeShareGroupOffsets, api key 90: the start offsets of share groups.

Behaviour: a partition without state has offset -1. Versions: 1 lag.
"""

from strom.broker.share_groups import SharePosition
from strom.coordination.groups.share.protocol import ShareGroup
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.server.kafka.long_work import Pauses
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

MAX_AT_ONCE = 100
"""Partitions that are described in one turn of the event loop."""
NOWHERE = SharePosition(start_offset=-1, leader_epoch=0, lag=-1)


@handler(
    DescribeShareGroupOffsetsRequest,
    Needs(Operation.DESCRIBE, Resource.GROUP),
    Needs(Operation.DESCRIBE, Resource.TOPIC),
)
async def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, context: Context
) -> DescribeShareGroupOffsetsResponse:
    response = DescribeShareGroupOffsetsResponse()
    pause = context.long_work.pauses()
    for group in request.groups:
        await pause()
        response.groups.append(await _describe(group, context, pause))
    return response


async def _describe(
    group: DescribeShareGroupOffsetsRequestGroup, context: Context, pause: Pauses
) -> DescribeShareGroupOffsetsResponseGroup:
    topics = group.topics
    if topics is None:
        topics = _all_topics(context.groups.look().find_share(group.group_id), context)
    indexes: dict[str, dict[int, None]] = {}
    for topic in topics:  # one result for a topic or partition that is named twice, as in Kafka
        await pause()
        indexes.setdefault(topic.topic_name, {}).update(dict.fromkeys(topic.partitions))
    topics = [
        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=list(its))
        for name, its in indexes.items()
    ]
    try:
        answers = [await _topic(group.group_id, topic, context, pause) for topic in topics]
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
    group: str,
    topic: DescribeShareGroupOffsetsRequestTopic,
    context: Context,
    pause: Pauses,
) -> DescribeShareGroupOffsetsResponseTopic:
    facts = context.broker.topics_image.find(topic.topic_name)
    topic_id = NO_UUID if facts is None else facts.id
    answer = DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=topic_id)
    await pause()
    for first in range(0, len(topic.partitions), MAX_AT_ONCE):
        await pause()
        indexes = topic.partitions[first : first + MAX_AT_ONCE]
        wanted = [] if facts is None else [(facts.id, index) for index in indexes]
        places = await context.shares.places(group, wanted)
        answer.partitions += [
            _partition(index, places.get((topic_id, index), NOWHERE)) for index in indexes
        ]
    return answer


def _partition(index: int, place: SharePosition) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=place.start_offset,
        leader_epoch=place.leader_epoch,
        lag=place.lag,
        error_code=ErrorCode.NONE,
    )
