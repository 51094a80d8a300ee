"""DeleteRecords, api key 21: advance the log start offset; -1 means the high watermark.

Behaviour: the new start offsets are durable before the response, so that a crash brings no record back.
"""

from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import reject_topic_of_queues
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


@handler(DeleteRecordsRequest, Needs(Operation.DELETE, Resource.TOPIC))
async def delete_records(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    pause = context.long_work.pauses()
    for topic in request.topics:
        result = DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(result)
        for wanted in topic.partitions:
            await pause()
            result.partitions.append(_delete(topic.name, wanted, context))
    try:
        await context.broker.checkpoint()
    except ApiError as error:
        _refuse(response, error)
    return response


def _refuse(response: DeleteRecordsResponse, error: ApiError) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = partition.error_code or error.code
            partition.low_watermark = -1


def _delete(
    topic: str, wanted: DeleteRecordsPartition, context: Context
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    try:
        hosted = context.broker.topic(topic)
        partition = hosted.partition(wanted.partition_index)
        reject_topic_of_queues(topic)
        if not hosted.settings.deleted_by_age_or_size:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        answer.low_watermark = partition.delete_before(wanted.offset)
    except ApiError as error:
        answer.error_code = error.code
    return answer
