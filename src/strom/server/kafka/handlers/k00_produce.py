"""Produce, api key 0: append record batches.

Behaviour: every partition has its own result. With acks=0 there is no response; an error then closes the
connection, as in Kafka, because the client has no other way to notice. With acks=1 and acks=all the
response waits until the records are as durable as the topic's `flush` requires. Clients cannot write to
internal topics. A transactional batch is accepted only in an open transaction of its producer, and
acknowledged when that is durable too. Versions: 11 TRANSACTION_ABORTABLE, 12 the first batch adds the
partition to the transaction (KIP-890); before, AddPartitionsToTxn is needed.
"""

import asyncio
import logging

from strom.broker.partition import HostedTopic, Partition
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode, ProtocolError
from strom.model.topics import is_internal
from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
from strom.wire.kafka.batch import CODEC_MASK, HEADER_BYTES, TRANSACTIONAL_BIT, read_header
from strom.wire.kafka.compression import Codec
from strom.wire.kafka.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

log = logging.getLogger(__name__)

ACKS_NONE = 0
ACKS_ALL = -1
LEGAL_ACKS = frozenset({ACKS_NONE, 1, ACKS_ALL})
FIRST_VERSION_WITH_IDS = 13
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_THAT_ADDS = 12
_LOW_ATTRIBUTES_BYTE = 22
_PASSES_SOON = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR})


class _PendingAcks:
    """Counts what is not yet durable; the last one to become durable sends the response.

    The request itself counts as one until all its partitions are appended: otherwise a partition that
    is durable at once could send the response before a later one has even been written.
    """

    __slots__ = ("_left", "_response", "answer")

    def __init__(self, response: ProduceResponse) -> None:
        self.answer: asyncio.Future[ProduceResponse] | None = None
        """Created only if a partition is not durable at once."""
        self._response = response
        self._left = 1

    def add(
        self, partition: PartitionProduceResponse, loop: asyncio.AbstractEventLoop
    ) -> "_AckOnDurable":
        if self.answer is None:
            self.answer = loop.create_future()
        self._left += 1
        return _AckOnDurable(self, partition)

    def remove(self) -> None:
        self._left -= 1
        if not self._left and self.answer is not None and not self.answer.done():
            self.answer.set_result(self._response)


class _AckOnDurable:
    """Called when one partition's records are durable, or with the error if they cannot be."""

    __slots__ = ("_partition", "_pending")

    def __init__(self, pending: _PendingAcks, partition: PartitionProduceResponse) -> None:
        self._pending = pending
        self._partition = partition

    def __call__(self, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            self._partition.error_code = code
            self._partition.base_offset = -1
        self._pending.remove()


@handler(
    ProduceRequest,
    Needs(Operation.WRITE, Resource.TOPIC),
    Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
)
def produce(request: ProduceRequest, context: Context) -> Outcome:
    response = ProduceResponse()
    pending = _PendingAcks(response)
    now_ms = context.broker.clock.now_ms()
    for topic_data in request.topic_data:
        answer = TopicProduceResponse(name=topic_data.name, topic_id=topic_data.topic_id)
        response.responses.append(answer)
        for data in topic_data.partition_data:
            answer.partition_responses.append(
                _append(request, topic_data, data, context, now_ms, pending)
            )
    if request.acks == ACKS_NONE:
        _close_on_error(response)
        return None
    if pending.answer is None:
        return response
    pending.remove()
    return response if pending.answer.done() else pending.answer


def _append(
    request: ProduceRequest,
    topic_data: TopicProduceData,
    data: PartitionProduceData,
    context: Context,
    now_ms: int,
    pending: _PendingAcks,
) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=data.index, base_offset=-1)
    try:
        partition = _topic(topic_data, context).partition(data.index)
        records = _checked_records(request, data, context.version)
        transactional = records[_LOW_ATTRIBUTES_BYTE] & TRANSACTIONAL_BIT
        if transactional:
            _admit(request, partition, records, context)
        appended = partition.append(records, now_ms)
    except ApiError as error:
        answer.error_code = error.code
        answer.error_message = error.message
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=error.message)
            for index in error.records
        ]
        return answer
    except DirectoryOffline as error:
        context.broker.storage_failed(error)
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    answer.base_offset = appended.base_offset
    answer.log_append_time_ms = appended.append_time_ms
    answer.log_start_offset = appended.start_offset
    if request.acks != ACKS_NONE and not partition.is_durable(appended):
        partition.on_durable(appended, pending.add(answer, context.services.loop))
    if transactional:
        _wait_for_transaction(request, answer, context, pending)
    return answer


def _admit(
    request: ProduceRequest, partition: Partition, records: memoryview, context: Context
) -> None:
    """Verify that the batch belongs to an open transaction; ApiError with a code for this version."""
    adds = context.version >= FIRST_VERSION_THAT_ADDS
    if not adds and not context.broker.settings.transaction_partition_verification:
        return
    header = read_header(records)
    if not request.transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    try:
        context.transactions.admit(
            request.transactional_id,
            header.producer_id,
            header.producer_epoch,
            partition.log.partition,
            adds=adds,
        )
    except ApiError as error:
        raise ApiError(_told_to_producers(error.code, context.version)) from error
    if adds and header.base_sequence and not partition.log.has_producer(header.producer_id):
        # Sequences begin at 0 with each transaction here, so earlier batches were lost in flight.
        raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def _told_to_producers(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code in _PASSES_SOON and version < FIRST_VERSION_THAT_ADDS:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # of the errors that such clients retry, the cheapest
    return code


def _wait_for_transaction(
    request: ProduceRequest,
    answer: PartitionProduceResponse,
    context: Context,
    pending: _PendingAcks,
) -> None:
    """Delay the response until the partition is durably part of the transaction."""
    transactions, name = context.transactions, request.transactional_id or ""
    if request.acks != ACKS_NONE and not transactions.is_durable(name):
        transactions.on_durable(name, pending.add(answer, context.services.loop))


def _topic(topic_data: TopicProduceData, context: Context) -> HostedTopic:
    if context.version >= FIRST_VERSION_WITH_IDS:
        hosted = context.broker.topic_by_id(topic_data.topic_id)
    else:
        hosted = context.broker.topic(topic_data.name)
    if is_internal(hosted.topic.name):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return hosted


def _checked_records(
    request: ProduceRequest, data: PartitionProduceData, version: int
) -> memoryview:
    if request.acks not in LEGAL_ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    records = data.records
    if records is None or len(records) < HEADER_BYTES:
        raise ApiError(ErrorCode.INVALID_RECORD, "The data has no complete record batch.")
    if records[_LOW_ATTRIBUTES_BYTE] & TRANSACTIONAL_BIT and request.transactional_id is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    zstd_is_too_new = version < FIRST_VERSION_WITH_ZSTD
    if zstd_is_too_new and records[_LOW_ATTRIBUTES_BYTE] & CODEC_MASK == Codec.ZSTD:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return records


def _close_on_error(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise ProtocolError(
                    f"a produce request with acks=0 failed: {partition.error_message}"
                )
