"""Produce, api key 0: append record batches.

Behaviour: every partition has its own result. With acks=0 there is no response; an error then closes the
connection, as in Kafka, because the client has no other way to notice. With acks=1 and acks=all the
response waits until the records are as durable as the topic's `flush` requires. Clients cannot write to
internal topics. A transactional batch is accepted only in an open transaction of its producer, and
acknowledged when that is durable too. Versions: 11 TRANSACTION_ABORTABLE, 12 the first batch adds the
partition to the transaction (KIP-890); before, AddPartitionsToTxn is needed. Batches with many records
that must be decoded, and requests with many partitions, are appended in slices.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import TypeAlias

from strom.broker.partition import HostedTopic, Partition
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode, ProtocolError
from strom.model.steps import Steps, run_at_once
from strom.model.topics import is_internal
from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
from strom.storage.validation import LongValidation, Validated
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
MAX_AT_ONCE = 300
"""Topics and partitions of a request that have one turn of the event loop: a few milliseconds."""
_LOW_ATTRIBUTES_BYTE = 22
_Place: TypeAlias = tuple[TopicProduceData, PartitionProduceData | None, TopicProduceResponse]
"""A partition in the request and the response for its topic; None for a topic without partitions."""
_PASSES_SOON = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR})


class _PendingAcks:
    """Counts what is not yet durable; the last one to become durable sends the response.

    The request itself counts as one until all its partitions are appended: otherwise a partition that
    is durable at once could send the response before a later one has even been written.
    """

    __slots__ = ("_left", "answer", "response")

    def __init__(self, response: ProduceResponse) -> None:
        self.answer: asyncio.Future[ProduceResponse] | None = None
        """Created only if a partition is not durable at once."""
        self.response = response
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
            self.answer.set_result(self.response)


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
    room = MAX_AT_ONCE
    for topic_data in request.topic_data:
        room -= 1 + len(topic_data.partition_data)
        if room < 0:
            return _append_rest(request, context, pending)
        answer = TopicProduceResponse(name=topic_data.name, topic_id=topic_data.topic_id)
        response.responses.append(answer)
        for data in topic_data.partition_data:
            try:
                one = _append(request, topic_data, data, context, now_ms, pending)
            except LongValidation:
                # Everything after it is postponed too, to keep the order.
                return _append_rest(request, context, pending)
            answer.partition_responses.append(one)
    if request.acks == ACKS_NONE:
        run_at_once(_close_on_error(response))
        return None
    if pending.answer is None:
        return response
    pending.remove()
    return response if pending.answer.done() else pending.answer


def _rest(request: ProduceRequest, response: ProduceResponse) -> Iterator[_Place]:
    """The partitions without a response; a topic is added to the response when its turn comes."""
    topics = iter(request.topic_data)
    for answer, topic_data in zip(tuple(response.responses), topics, strict=False):
        for data in topic_data.partition_data[len(answer.partition_responses) :]:
            yield topic_data, data, answer
    for topic_data in topics:
        answer = TopicProduceResponse(name=topic_data.name, topic_id=topic_data.topic_id)
        response.responses.append(answer)
        if not topic_data.partition_data:
            yield topic_data, None, answer
        for data in topic_data.partition_data:
            yield topic_data, data, answer


async def _append_rest(
    request: ProduceRequest, context: Context, pending: _PendingAcks
) -> ProduceResponse | None:
    """Append what takes long, in slices. The connection waits with its next requests."""
    pause = context.long_work.pauses()
    for topic_data, data, answer in _rest(request, pending.response):
        await pause()
        if data is None:
            continue
        now_ms = context.broker.clock.now_ms()
        try:
            one = _append(request, topic_data, data, context, now_ms, pending)
        except LongValidation:
            one = await _append_long(request, topic_data, data, context, pending)
        answer.partition_responses.append(one)
    if request.acks == ACKS_NONE:
        await context.long_work.run(_close_on_error(pending.response))
        return None
    if pending.answer is None:
        return pending.response
    pending.remove()
    return await pending.answer


async def _append_long(
    request: ProduceRequest,
    topic_data: TopicProduceData,
    data: PartitionProduceData,
    context: Context,
    pending: _PendingAcks,
) -> PartitionProduceResponse:
    """Validate a batch in slices, then append it. Only then is it admitted to its transaction, which
    may have ended meanwhile."""
    clock = context.broker.clock
    try:
        partition = _topic(topic_data, context).partition(data.index)
        records = _checked_records(request, data, context.version)
        validated = await context.long_work.run(partition.validation_steps(records, clock.now_ms()))
    except ApiError as error:
        return _refused(data.index, error)
    return _append(request, topic_data, data, context, clock.now_ms(), pending, validated)


def _append(
    request: ProduceRequest,
    topic_data: TopicProduceData,
    data: PartitionProduceData,
    context: Context,
    now_ms: int,
    pending: _PendingAcks,
    validated: Validated | None = None,
) -> PartitionProduceResponse:
    """Append a batch; LongValidation unless that is done at once, or `validated` already."""
    try:
        partition = _topic(topic_data, context).partition(data.index)
        records = _checked_records(request, data, context.version)
        transactional = records[_LOW_ATTRIBUTES_BYTE] & TRANSACTIONAL_BIT
        if transactional:
            _admit(request, partition, records, context)
        appended = partition.append(records, now_ms, at_once=False, validated=validated)
    except ApiError as error:
        return _refused(data.index, error)
    except DirectoryOffline as error:
        context.broker.storage_failed(error)
        return PartitionProduceResponse(
            index=data.index, base_offset=-1, error_code=ErrorCode.KAFKA_STORAGE_ERROR
        )
    answer = PartitionProduceResponse(index=data.index, base_offset=appended.base_offset)
    answer.log_append_time_ms = appended.append_time_ms
    answer.log_start_offset = appended.start_offset
    if request.acks != ACKS_NONE and not partition.is_durable(appended):
        partition.on_durable(appended, pending.add(answer, context.services.loop))
    if transactional:
        _wait_for_transaction(request, answer, context, pending)
    return answer


def _refused(index: int, error: ApiError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        base_offset=-1,
        error_code=error.code,
        error_message=error.message,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=error.message)
            for at in error.records
        ],
    )


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


def _close_on_error(response: ProduceResponse) -> Steps[None]:
    for topic in response.responses:
        yield None
        for partition in topic.partition_responses:
            if partition.error_code:
                raise ProtocolError(
                    f"a produce request with acks=0 failed: {partition.error_message}"
                )
