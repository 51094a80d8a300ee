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
    topics = []
    pause = context.long_work.pauses()
    for topic in request.topics:
        await pause()
        topics.append((topic.topic_name, context.broker.topics_image.find(topic.topic_name)))
    ids = frozenset(facts.id for _, facts in topics if facts is not None)
    try:
        with context.shares.administering(request.group_id):
            answered = await context.groups.submit(
                DeleteShareTopics(group=request.group_id, topic_ids=ids)
            )
            if answered.code is not ErrorCode.NONE:
                raise ApiError(answered.code)
            await context.shares.forget(request.group_id, pause, ids)
    except ApiError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    response = DeleteShareGroupOffsetsResponse()
    for name, facts in topics:
        await pause()
        answer = DeleteShareGroupOffsetsResponseTopic(topic_name=name)
        response.responses.append(answer)
        if facts is not None:
            answer.topic_id = facts.id
        else:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text
    return response
