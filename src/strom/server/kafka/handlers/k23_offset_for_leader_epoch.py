"""OffsetForLeaderEpoch, api key 23: the end of a leader epoch, to detect truncation (KIP-320)."""

from strom.model.errors import ApiError
from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@handler(OffsetForLeaderEpochRequest, Needs(Operation.DESCRIBE, Resource.TOPIC))
def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: Context
) -> Steps[OffsetForLeaderEpochResponse]:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answer = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(answer)
        for wanted in topic.partitions:
            answer.partitions.append(_end(topic.topic, wanted, context))
            yield None
    return response


def _end(topic: str, wanted: OffsetForLeaderPartition, context: Context) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = context.broker.topic(topic).partition(wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.log.end_of_epoch(wanted.leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
    return answer
