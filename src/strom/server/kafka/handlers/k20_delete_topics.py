"""DeleteTopics, api key 20: by name, or (version 6) by id."""

from collections import Counter

from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import reject_topic_of_queues
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from strom.wire.kafka.schema import NO_UUID


@handler(DeleteTopicsRequest, Needs(Operation.DELETE, Resource.TOPIC))
async def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    wanted = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    times = Counter((topic.name, topic.topic_id) for topic in wanted)
    response = DeleteTopicsResponse()
    pause = context.long_work.pauses()
    for (name, topic_id), count in times.items():  # one result for each, as in Kafka
        await pause()
        topic = DeleteTopicState(name=name, topic_id=topic_id)
        response.responses.append(await _delete(topic, context, asked_twice=count > 1))
    return response


async def _delete(
    topic: DeleteTopicState, context: Context, *, asked_twice: bool
) -> DeletableTopicResult:
    broker = context.broker
    name, topic_id = topic.name, topic.topic_id
    try:
        if not broker.settings.delete_topics:
            raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
        if (name is None) == (topic_id == NO_UUID):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Give either the name or the id of a topic, not both."
            )
        if asked_twice:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic.")
        hosted = broker.topic(name) if name is not None else broker.topic_by_id(topic_id)
        name, topic_id = hosted.topic.name, hosted.topic.id.bytes
        reject_topic_of_queues(name)
        await broker.delete_topic(name)
    except ApiError as error:
        return DeletableTopicResult(
            name=name, topic_id=topic_id, error_code=error.code, error_message=error.message
        )
    return DeletableTopicResult(name=name, topic_id=topic_id)
