"""DeleteRecords, api key 21: move the beginning of a partition up; -1 means up to its end."""

from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.context import Context
from strom.server.kafka.registry import Needs, Operation, Outcome, Resource, handler
from strom.wire.kafka.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


@handler(DeleteRecordsRequest, Needs(Operation.DELETE, Resource.TOPIC))
def delete_records(request: DeleteRecordsRequest, context: Context) -> Outcome:
    """Answer for every partition on its own."""
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(topic.name, wanted, context) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    context.broker.checkpoint()
    return response


def _delete(
    topic: str, wanted: DeleteRecordsPartition, context: Context
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    try:
        hosted = context.broker.topic(topic)
        partition = hosted.partition(wanted.partition_index)
        if not hosted.settings.deleted_by_age_or_size:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        answer.low_watermark = partition.delete_before(wanted.offset)
    except ApiError as error:
        answer.error_code = error.code
    return answer
