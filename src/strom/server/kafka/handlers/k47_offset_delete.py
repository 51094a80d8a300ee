"""OffsetDelete, api key 47: delete committed offsets of a group.

Behaviour: offsets of subscribed topics cannot be deleted (GROUP_SUBSCRIBED_TO_TOPIC).
"""

from strom.coordination.groups.commands import DeleteOffsets, PartitionsResponse
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import TopicPartition
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

MAX_AT_ONCE = 100
"""Partitions whose offsets are deleted in one turn of the event loop: a few milliseconds."""


@handler(
    OffsetDeleteRequest,
    Needs(Operation.DELETE, Resource.GROUP),
    Needs(Operation.READ, Resource.TOPIC),
)
async def offset_delete(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    wanted = []
    pause = context.long_work.pauses()
    for topic in request.topics:
        for one in topic.partitions:
            await pause()
            if _known(topic.name, one.partition_index, context):
                wanted.append(TopicPartition(topic.name, one.partition_index))
    try:
        codes = await _delete(request.group_id, wanted, context)
    except ApiError as error:
        return OffsetDeleteResponse(error_code=error.code)
    answers: dict[str, OffsetDeleteResponseTopic] = {}  # one for each topic, as in Kafka
    for topic in request.topics:
        await pause()
        for one in topic.partitions:
            answer = answers.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name))
            await pause()
            partition = TopicPartition(topic.name, one.partition_index)
            answer.partitions.append(
                OffsetDeleteResponsePartition(
                    partition_index=one.partition_index,
                    error_code=codes.get(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                )
            )
    return OffsetDeleteResponse(topics=list(answers.values()))


async def _delete(
    group: str, wanted: list[TopicPartition], context: Context
) -> dict[TopicPartition, ErrorCode]:
    """Delete the offsets in several batches if they are many; ApiError if the group refuses all.

    If it refuses some of the batches, because it has changed meanwhile, their partitions get the error.
    """
    pause = context.long_work.pauses()
    parts = []
    for first in range(0, max(1, len(wanted)), MAX_AT_ONCE):
        await pause()
        part = tuple(dict.fromkeys(wanted[first : first + MAX_AT_ONCE]))
        command = DeleteOffsets(group=group, partitions=part)
        parts.append((part, context.groups.submit(command)))
    codes: dict[TopicPartition, ErrorCode] = {}
    refusals = []
    for part, pending in parts:
        deleted: PartitionsResponse = await pending
        if deleted.code is ErrorCode.NONE:
            codes.update(deleted.partitions)
        else:
            refusals.append(deleted.code)
            codes.update(dict.fromkeys(part, deleted.code))
    if len(refusals) == len(parts):
        raise ApiError(refusals[0])
    return codes


def _known(topic: str, index: int, context: Context) -> bool:
    hosted = context.broker.find_topic(topic)
    return hosted is not None and 0 <= index < len(hosted.partitions)
