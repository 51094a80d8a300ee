"""OffsetCommit, api key 8: commit the offsets of a group.

Behaviour: the response waits until the offsets are durable. Only members of the current generation may
commit; without a generation any client may, while the group is empty. Versions: up to 4 with a retention
time, 6 leader epochs, 7 static members, 9 GROUP_ID_NOT_FOUND for a deleted group, 10 topic ids.
"""

from collections.abc import Iterator
from copy import copy

from strom.broker.partition import HostedTopic
from strom.coordination.groups.commands import CommitOffsets, PartitionsResponse
from strom.coordination.groups.records import CommittedOffset
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import TopicPartition
from strom.server.kafka.api import (
    Context,
    Needs,
    Operation,
    Outcome,
    PendingResponse,
    Resource,
    handler,
)
from strom.wire.kafka.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_VERSION_WITH_MISSING_GROUPS = 9
FIRST_VERSION_WITH_IDS = 10
LAST_VERSION_WITH_RETENTION = 4
NO_RETENTION = -1
MAX_AT_ONCE = 100
"""Partitions whose offsets are committed in one turn of the event loop: a few milliseconds."""


@handler(
    OffsetCommitRequest,
    Needs(Operation.READ, Resource.GROUP),
    Needs(Operation.READ, Resource.TOPIC),
)
def offset_commit(request: OffsetCommitRequest, context: Context) -> Outcome:
    """Commit the offsets of existing partitions; the others get errors."""
    if sum(len(topic.partitions) or 1 for topic in request.topics) > MAX_AT_ONCE:
        return _commit_in_parts(request, context)
    return _commit(request, context)


async def _commit_in_parts(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse:
    """Commit the offsets of many partitions in several batches, each in a turn of the event loop.

    The response comes when all are durable. A crash before may leave some of them committed.
    """
    pause = context.long_work.pauses()
    pending = []
    for part in _parts(request):
        await pause()
        pending.append(_commit(part, context))
    response = OffsetCommitResponse()
    for result, convert, *_ in pending:
        await pause()
        for topic in convert(await result).topics:
            last = response.topics[-1] if response.topics else None
            if last is not None and (last.name, last.topic_id) == (topic.name, topic.topic_id):
                last.partitions += topic.partitions
            else:
                response.topics.append(topic)
    return response


def _parts(request: OffsetCommitRequest) -> Iterator[OffsetCommitRequest]:
    """The request in requests of at most MAX_AT_ONCE partitions."""
    part, room = copy(request), MAX_AT_ONCE
    part.topics = []
    for topic in request.topics:
        first = 0
        while first == 0 or first < len(topic.partitions):  # also a topic without partitions
            piece = copy(topic)
            piece.partitions = topic.partitions[first : first + room]
            part.topics.append(piece)
            taken = len(piece.partitions) or 1
            first += taken
            room -= taken
            if not room:
                yield part
                part, room = copy(request), MAX_AT_ONCE
                part.topics = []
    if part.topics:
        yield part


def _commit(
    request: OffsetCommitRequest, context: Context
) -> PendingResponse[OffsetCommitResponse]:
    response = OffsetCommitResponse()
    offsets: list[tuple[TopicPartition, CommittedOffset]] = []
    answers: dict[TopicPartition, list[OffsetCommitResponsePartition]] = {}
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answer)
        hosted, missing = _topic(topic, context)
        for wanted in topic.partitions:
            part = OffsetCommitResponsePartition(partition_index=wanted.partition_index)
            answer.partitions.append(part)
            if hosted is None or not 0 <= wanted.partition_index < len(hosted.partitions):
                part.error_code = missing
                continue
            partition = TopicPartition(hosted.topic.name, wanted.partition_index)
            answers.setdefault(partition, []).append(part)  # a request may repeat one
            offsets.append((partition, _offset(request, wanted, hosted, context)))
    command = CommitOffsets(
        group=request.group_id,
        generation=request.generation_id_or_member_epoch,
        member=request.member_id,
        instance=request.group_instance_id,
        offsets=tuple(offsets),
        knows_missing_groups=context.version >= FIRST_VERSION_WITH_MISSING_GROUPS,
    )

    def filled_in(committed: PartitionsResponse) -> OffsetCommitResponse:
        for partition, code in committed.partitions.items():
            for part in answers[partition]:
                part.error_code = code
        return response

    return PendingResponse(context.groups.submit(command), filled_in)


def _topic(
    topic: OffsetCommitRequestTopic, context: Context
) -> tuple[HostedTopic | None, ErrorCode]:
    """The topic, and the error for partitions that it does not have."""
    try:
        if context.version >= FIRST_VERSION_WITH_IDS:
            hosted = context.broker.topic_by_id(topic.topic_id)
        else:
            hosted = context.broker.topic(topic.name)
    except ApiError as error:
        return None, error.code
    return hosted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _offset(
    request: OffsetCommitRequest,
    wanted: OffsetCommitRequestPartition,
    hosted: HostedTopic,
    context: Context,
) -> CommittedOffset:
    now_ms = context.broker.clock.now_ms()
    keeps = request.retention_time_ms
    chosen = context.version <= LAST_VERSION_WITH_RETENTION and keeps != NO_RETENTION
    return CommittedOffset(
        offset=wanted.committed_offset,
        leader_epoch=wanted.committed_leader_epoch,
        metadata=wanted.committed_metadata or "",
        committed_ms=now_ms,
        expires_ms=now_ms + keeps if chosen else None,
        topic_id=hosted.topic.id.bytes,
    )
