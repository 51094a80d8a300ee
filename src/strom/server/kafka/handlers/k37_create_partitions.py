"""CreatePartitions, api key 37: add partitions to topics."""

from collections import Counter

from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import reject_topic_of_queues
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


@handler(CreatePartitionsRequest, Needs(Operation.ALTER, Resource.TOPIC))
async def create_partitions(
    request: CreatePartitionsRequest, context: Context
) -> CreatePartitionsResponse:
    pause = context.long_work.pauses()
    times = Counter(topic.name for topic in request.topics)
    results = []
    for topic in request.topics:
        await pause()
        if times[topic.name] == 1:
            results.append(await _grow(topic, request.validate_only, context))
    for name, count in times.items():
        await pause()
        if count > 1:
            results.append(
                CreatePartitionsTopicResult(
                    name=name,
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message="Duplicate topic name.",
                )
            )
    return CreatePartitionsResponse(results=results)


async def _grow(
    topic: CreatePartitionsTopic, only_check: bool, context: Context
) -> CreatePartitionsTopicResult:
    try:
        reject_topic_of_queues(topic.name)
        _check_assignments(topic, context)
        await context.broker.add_partitions(topic.name, topic.count, only_check=only_check)
    except ApiError as error:
        return CreatePartitionsTopicResult(
            name=topic.name, error_code=error.code, error_message=error.message
        )
    return CreatePartitionsTopicResult(name=topic.name)


def _check_assignments(topic: CreatePartitionsTopic, context: Context) -> None:
    if topic.assignments is None:
        return
    added = topic.count - len(context.broker.topic(topic.name).partitions)
    if added > 0 and len(topic.assignments) != added:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partitions are added, but {len(topic.assignments)} have replica assignments.",
        )
    node = context.services.endpoint.node_id
    if any(assigned.broker_ids != [node] for assigned in topic.assignments):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Only broker {node} is registered.")
