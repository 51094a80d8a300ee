"""AlterShareGroupOffsets, api key 91: reset the start offsets of an empty share group.

Behaviour: the delivery state after the new offset is dropped, and records are delivered again. A group
that does not exist is created.
"""

from strom.broker.share_sessions import TopicIdPartition
from strom.coordination.groups.share.protocol import AddShareTopics
from strom.coordination.groups.share.records import KnownTopic
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from strom.wire.kafka.schema import NO_UUID


@handler(
    AlterShareGroupOffsetsRequest,
    Needs(Operation.READ, Resource.GROUP),
    Needs(Operation.READ, Resource.TOPIC),
)
async def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, context: Context
) -> AlterShareGroupOffsetsResponse:
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    offsets: dict[TopicIdPartition, int] = {}
    known = []
    pause = context.long_work.pauses()
    for topic in request.topics:
        await pause()
        facts = context.broker.topics_image.find(topic.topic_name)
        if facts is not None:
            known.append(KnownTopic(facts.name, facts.id, facts.partitions))
            for one in topic.partitions:
                await pause()
                if 0 <= one.partition_index < facts.partitions and one.start_offset >= 0:
                    offsets[facts.id, one.partition_index] = one.start_offset
    try:
        await context.shares.state_log.ensure_topic()
        await context.groups.topic.ensure()
        with context.shares.administering(request.group_id):
            answered = await context.groups.submit(
                AddShareTopics(group=request.group_id, topics=tuple(known))
            )
            if answered.code is not ErrorCode.NONE:
                raise ApiError(answered.code)
            await context.shares.move(request.group_id, offsets, pause)
    except ApiError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return await context.long_work.run(_respond(request, offsets, context))


def _respond(
    request: AlterShareGroupOffsetsRequest, moved: dict[TopicIdPartition, int], context: Context
) -> Steps[AlterShareGroupOffsetsResponse]:
    response = AlterShareGroupOffsetsResponse()
    for topic in request.topics:
        response.responses.append((yield from _topic(topic, moved, context)))
        yield None
    return response


def _topic(
    topic: AlterShareGroupOffsetsRequestTopic,
    moved: dict[TopicIdPartition, int],
    context: Context,
) -> Steps[AlterShareGroupOffsetsResponseTopic]:
    facts = context.broker.topics_image.find(topic.topic_name)
    topic_id = NO_UUID if facts is None else facts.id
    partitions = []
    for one in topic.partitions:
        yield None
        code = ErrorCode.NONE
        if (topic_id, one.partition_index) not in moved:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if facts is not None and 0 <= one.partition_index < facts.partitions:
                code = ErrorCode.INVALID_REQUEST
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition_index,
                error_code=code,
                error_message=code.text if code else None,
            )
        )
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, topic_id=topic_id, partitions=partitions
    )
