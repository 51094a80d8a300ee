"""TxnOffsetCommit, api key 28: commit the offsets of a group in a transaction.

Behaviour: until the transaction commits the offsets are pending: OffsetFetch returns the old ones, or
(with `require_stable`) UNSTABLE_OFFSET_COMMIT. Versions: 3 with the member and its generation
(KIP-447), 4 TRANSACTION_ABORTABLE, 5 adds the group to the transaction (KIP-890); before,
AddOffsetsToTxn is needed.
"""

import asyncio

from strom.coordination.groups.commands import CommitOffsets, PartitionsResponse, ProducerEpoch
from strom.coordination.groups.records import CommittedOffset
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import TopicPartition
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS = 5
MAX_AT_ONCE = 100
"""Partitions whose offsets are committed in one turn of the event loop: a few milliseconds."""

Offsets = list[tuple[TopicPartition, CommittedOffset]]


@handler(
    TxnOffsetCommitRequest,
    Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
    Needs(Operation.READ, Resource.GROUP),
    Needs(Operation.READ, Resource.TOPIC),
)
async def txn_offset_commit(
    request: TxnOffsetCommitRequest, context: Context
) -> TxnOffsetCommitResponse:
    """Commit the offsets of existing partitions; the others get errors."""
    offsets: Offsets = []
    answers: dict[TopicPartition, list[TxnOffsetCommitResponsePartition]] = {}
    response = TxnOffsetCommitResponse()
    pause = context.long_work.pauses()
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answer)
        hosted = context.broker.find_topic(topic.name)
        for wanted in topic.partitions:
            await pause()
            part = TxnOffsetCommitResponsePartition(partition_index=wanted.partition_index)
            answer.partitions.append(part)
            if hosted is None or not 0 <= wanted.partition_index < len(hosted.partitions):
                part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            partition = TopicPartition(topic.name, wanted.partition_index)
            answers.setdefault(partition, []).append(part)  # a request may repeat one
            offsets.append((partition, _offset(wanted, hosted.topic.id.bytes, context)))
    codes = await _commit(request, offsets, context)
    for partition, code in codes.items():
        await pause()
        for part in answers[partition]:
            part.error_code = _told(code, context.version)
    return response


async def _commit(
    request: TxnOffsetCommitRequest, offsets: Offsets, context: Context
) -> dict[TopicPartition, ErrorCode]:
    """Commit the offsets, in several batches if they are many; the marker applies all of them."""
    codes: dict[TopicPartition, ErrorCode] = {}
    pending: list[asyncio.Future[PartitionsResponse]] = []
    pause = context.long_work.pauses()
    for first in range(0, len(offsets), MAX_AT_ONCE):
        await pause()
        some = tuple(offsets[first : first + MAX_AT_ONCE])
        try:
            # Each time, because the transaction may have ended during the pause: offsets that come
            # after its marker would be pending for ever.
            _admit(request, context)
        except ApiError as error:
            codes.update((partition, error.code) for partition, _ in some)
        else:
            pending.append(context.groups.submit(_command(request, some)))
    committed = [await one for one in pending]
    if committed and await _safe(request.transactional_id, context) is not ErrorCode.NONE:
        committed = [one.with_error(ErrorCode.COORDINATOR_NOT_AVAILABLE) for one in committed]
    for one in committed:
        codes.update(one.partitions)
    return codes


def _command(
    request: TxnOffsetCommitRequest, offsets: tuple[tuple[TopicPartition, CommittedOffset], ...]
) -> CommitOffsets:
    return CommitOffsets(
        group=request.group_id,
        generation=request.generation_id,
        member=request.member_id,
        instance=request.group_instance_id,
        offsets=offsets,
        producer=ProducerEpoch(request.producer_id, request.producer_epoch),
    )


def _admit(request: TxnOffsetCommitRequest, context: Context) -> None:
    adds = context.version >= FIRST_VERSION_THAT_ADDS
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    if not adds and not context.broker.settings.transaction_partition_verification:
        return
    context.transactions.admit(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        context.groups.offsets_partition(request.group_id),
        adds=adds,
    )


def _told(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.STALE_MEMBER_EPOCH:
        return ErrorCode.ILLEGAL_GENERATION  # no version of this request supports the other code
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code


async def _safe(transactional_id: str, context: Context) -> ErrorCode:
    """Wait until the group is durably part of the transaction."""
    try:
        return await context.transactions.wait_until_durable(transactional_id)
    except ApiError as error:
        return error.code


def _offset(
    wanted: TxnOffsetCommitRequestPartition, topic_id: bytes, context: Context
) -> CommittedOffset:
    return CommittedOffset(
        offset=wanted.committed_offset,
        leader_epoch=wanted.committed_leader_epoch,
        metadata=wanted.committed_metadata or "",
        committed_ms=context.broker.clock.now_ms(),
        topic_id=topic_id,
    )
