"""WriteTxnMarkers, api key 27: write commit and abort markers.

Behaviour: this broker writes its own markers without it; administrators use it (`kafka-transactions
abort`) to end a hanging transaction in one partition. The response waits for the disk. Versions: 2 with
the transactions version; with 2 or later, a marker must have a bumped epoch.
"""

from strom.broker.partition import Partition
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import reject_topic_of_queues
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from strom.wire.kafka.records import ControlType, Marker

FIRST_TRANSACTIONS_WITH_BUMPS = 2


@handler(WriteTxnMarkersRequest, Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER))
async def write_txn_markers(
    request: WriteTxnMarkersRequest, context: Context
) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse()
    pause = context.long_work.pauses()
    for wanted in request.markers:
        result = WritableTxnMarkerResult(producer_id=wanted.producer_id)
        response.markers.append(result)
        for topic in wanted.topics:
            written = WritableTxnMarkerTopicResult(name=topic.name)
            result.topics.append(written)
            for index in topic.partition_indexes:
                await pause()
                written.partitions.append(
                    WritableTxnMarkerPartitionResult(
                        partition_index=index,
                        error_code=await _write(wanted, topic.name, index, context),
                    )
                )
    return response


async def _write(wanted: WritableTxnMarker, topic: str, index: int, context: Context) -> ErrorCode:
    kind = ControlType.COMMIT if wanted.transaction_result else ControlType.ABORT
    marker = Marker(kind, wanted.coordinator_epoch)
    try:
        reject_topic_of_queues(topic)
        partition = context.broker.topic(topic).partition(index)
        _check_epoch(wanted, partition)
        appended = context.transactions.markers.append(
            partition, marker, wanted.producer_id, wanted.producer_epoch
        )
    except ApiError as error:
        return error.code
    return await partition.wait_until_synced(appended.last_offset)


def _check_epoch(wanted: WritableTxnMarker, partition: Partition) -> None:
    if wanted.transaction_version >= FIRST_TRANSACTIONS_WITH_BUMPS:
        for known in partition.log.producers():
            if known.producer_id == wanted.producer_id:
                if wanted.producer_epoch <= known.producer_epoch:
                    raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
