"""OffsetDelete, api key 47: delete committed offsets of a group.

Behaviour: offsets of subscribed topics cannot be deleted (GROUP_SUBSCRIBED_TO_TOPIC).
"""

from strom.coordination.groups.commands import DeleteOffsets, PartitionsResponse
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@handler(
    OffsetDeleteRequest,
    Needs(Operation.DELETE, Resource.GROUP),
    Needs(Operation.READ, Resource.TOPIC),
)
async def offset_delete(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    wanted = {
        TopicPartition(topic.name, one.partition_index): _known(
            topic.name, one.partition_index, context
        )
        for topic in request.topics
        for one in topic.partitions
    }
    deleted: PartitionsResponse = await context.groups.submit(
        DeleteOffsets(
            group=request.group_id,
            partitions=tuple(partition for partition, known in wanted.items() if known),
        )
    )
    if deleted.code is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=deleted.code)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=deleted.partitions.get(
                            TopicPartition(topic.name, one.partition_index),
                            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        ),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _known(topic: str, index: int, context: Context) -> bool:
    hosted = context.broker.find_topic(topic)
    return hosted is not None and 0 <= index < len(hosted.partitions)
