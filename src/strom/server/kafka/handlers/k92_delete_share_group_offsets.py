"""DeleteShareGroupOffsets, api key 92: delete the state of topics in an empty share group."""

from strom.coordination.groups.share.protocol import DeleteShareTopics
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


@handler(
    DeleteShareGroupOffsetsRequest,
    Needs(Operation.DELETE, Resource.GROUP),
    Needs(Operation.READ, Resource.TOPIC),
)
async def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, context: Context
) -> DeleteShareGroupOffsetsResponse:
    if not request.group_id:
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    topics = [
        (topic.topic_name, context.broker.topics_image.find(topic.topic_name))
        for topic in request.topics
    ]
    ids = frozenset(facts.id for _, facts in topics if facts is not None)
    try:
        answered = await context.groups.submit(
            DeleteShareTopics(group=request.group_id, topic_ids=ids)
        )
        if answered.code is not ErrorCode.NONE:
            raise ApiError(answered.code)
        await context.shares.forget(request.group_id, ids)
    except ApiError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return DeleteShareGroupOffsetsResponse(
        responses=[
            DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=facts.id)
            if facts is not None
            else DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text,
            )
            for name, facts in topics
        ]
    )
