"""ListOffsets, api key 2: offsets by timestamp, and the start and end of partitions.

Behaviour: the special timestamps are latest (-1), earliest (-2), the record with the largest timestamp
(-3), earliest on local disk (-4), and two for tiered storage (-5, -6), which is empty here.
"""

from collections import Counter

from strom.broker.partition import Partition
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.storage.log import Log
from strom.storage.log_reading import FoundOffset
from strom.wire.kafka.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
FIRST_VERSIONS = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version of each special timestamp."""
FIRST_VERSION_WITH_EPOCHS = 4
READ_COMMITTED = 1
REPORTED = 0
"""For a partition that is named twice: it has one result, which is an error."""
NOTHING = FoundOffset(-1, -1, -1)


@handler(ListOffsetsRequest, Needs(Operation.DESCRIBE, Resource.TOPIC))
def list_offsets(request: ListOffsetsRequest, context: Context) -> Steps[ListOffsetsResponse]:
    committed_only = request.isolation_level == READ_COMMITTED
    times = Counter(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    answers: dict[str, ListOffsetsTopicResponse] = {}
    for topic in request.topics:
        answer = answers.setdefault(topic.name, ListOffsetsTopicResponse(name=topic.name))
        for wanted in topic.partitions:
            yield None
            count = times[topic.name, wanted.partition_index]
            if count == REPORTED:
                continue
            try:
                if count > 1:
                    times[topic.name, wanted.partition_index] = REPORTED
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                partition = _partition(topic.name, wanted, context)
                found = _special_offset(partition, wanted.timestamp, committed_only)
                if found is None:
                    found = yield from _look_up(partition.log, wanted.timestamp, committed_only)
                answer.partitions.append(_found(wanted, found, context))
            except ApiError as error:
                answer.partitions.append(
                    ListOffsetsPartitionResponse(
                        partition_index=wanted.partition_index, error_code=error.code
                    )
                )
    return ListOffsetsResponse(topics=list(answers.values()))


def _partition(topic: str, wanted: ListOffsetsPartition, context: Context) -> Partition:
    partition = context.broker.topic(topic).partition(wanted.partition_index)
    partition.check_leader_epoch(wanted.current_leader_epoch)
    if context.version < FIRST_VERSIONS.get(wanted.timestamp, 0):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    return partition


def _found(
    wanted: ListOffsetsPartition, found: FoundOffset, context: Context
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, offset=found.offset, timestamp=found.timestamp
    )
    if context.version >= FIRST_VERSION_WITH_EPOCHS:
        answer.leader_epoch = found.leader_epoch
    return answer


def _special_offset(
    partition: Partition, timestamp: int, committed_only: bool
) -> FoundOffset | None:
    """The offset that a special timestamp stands for; None if a search must find it."""
    log = partition.log
    if timestamp == LATEST:
        return FoundOffset(_end(log, committed_only), -1, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return FoundOffset(log.start_offset, -1, log.epoch_of(log.start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp < EARLIEST_PENDING_UPLOAD:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    return None


def _look_up(log: Log, timestamp: int, committed_only: bool) -> Steps[FoundOffset]:
    if timestamp == MAX_TIMESTAMP:
        found = yield from log.reader.find_max_timestamp()
    else:
        found = yield from log.reader.find_timestamp(timestamp)
    return found if found is not None and found.offset < _end(log, committed_only) else NOTHING


def _end(log: Log, committed_only: bool) -> int:
    return log.last_stable_offset if committed_only else log.high_watermark
