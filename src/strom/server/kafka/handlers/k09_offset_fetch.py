"""OffsetFetch, api key 9: the committed offsets of groups; null topics stand for all.

Behaviour: only durable offsets are returned. A partition without an offset is -1, without an error. With
`require_stable`, an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT.
Versions: 2 all topics of a group, 7 `require_stable`, 8 several groups, 9 member epochs of consumer
groups,
10 topic ids.
"""

from collections.abc import Mapping

from strom.broker.partition import HostedTopic
from strom.coordination.groups.coordinator import GroupCoordinator
from strom.coordination.groups.records import NO_LEADER_EPOCH, CommittedOffset
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps
from strom.model.topics import TopicPartition
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from strom.wire.kafka.schema import NO_UUID

FIRST_VERSION_WITH_A_GROUP_ERROR = 2
FIRST_VERSION_WITH_MANY = 8
FIRST_VERSION_WITH_IDS = 10
NOTHING = CommittedOffset(offset=-1, leader_epoch=NO_LEADER_EPOCH, committed_ms=-1)

Committed = Mapping[TopicPartition, CommittedOffset]


@handler(
    OffsetFetchRequest,
    Needs(Operation.DESCRIBE, Resource.GROUP),
    Needs(Operation.DESCRIBE, Resource.TOPIC),
)
async def offset_fetch(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    if context.version >= FIRST_VERSION_WITH_MANY:
        return await _fetch_many(request, context)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    wanted = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    answer = await _fetch(wanted, context, require_stable=request.require_stable)
    return await context.long_work.run(_for_one(answer, context.version))


async def _fetch_many(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    # As in Kafka, the response repeats a group that the request repeats.
    all_topics: dict[tuple[str, str | None, int], OffsetFetchResponseGroup] = {}
    response = OffsetFetchResponse()
    pause = context.long_work.pauses()
    for wanted in request.groups:
        await pause()
        who = (wanted.group_id, wanted.member_id, wanted.member_epoch)
        found = all_topics.get(who) if wanted.topics is None else None
        if found is None:
            found = await _fetch(wanted, context, require_stable=request.require_stable)
        if wanted.topics is None:
            all_topics[who] = found
        response.groups.append(found)
    return response


async def _fetch(
    wanted: OffsetFetchRequestGroup, context: Context, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    code = ErrorCode.NONE
    topics, group = wanted.topics, wanted.group_id
    committed: Committed = {}
    pending: frozenset[TopicPartition] = frozenset()
    try:
        committed, pending = await context.groups.read(group, lambda groups: _look(wanted, groups))
    except ApiError as error:
        code = error.code
        if context.version >= FIRST_VERSION_WITH_A_GROUP_ERROR:
            topics = []
    answer = OffsetFetchResponseGroup(group_id=group, error_code=code)
    unstable = pending if require_stable else frozenset[TopicPartition]()
    await context.long_work.run(_fill(answer, topics, committed, unstable, context, code))
    return answer


def _fill(
    answer: OffsetFetchResponseGroup,
    topics: list[OffsetFetchRequestTopics] | None,
    committed: Committed,
    unstable: frozenset[TopicPartition],
    context: Context,
    code: ErrorCode,
) -> Steps[None]:
    """Add the offsets of these topics, or of all."""
    for topic in (yield from _everything(committed, context)) if topics is None else topics:
        found = yield from _topic(topic, committed, context, code)
        if found is not None:
            answer.topics.append(found)
            if unstable:
                yield from _hide_unstable(found, unstable)
        yield None


def _look(
    wanted: OffsetFetchRequestGroup, groups: GroupCoordinator
) -> tuple[Committed, frozenset[TopicPartition]]:
    group = wanted.group_id
    groups.check_may_fetch(group, wanted.member_id, wanted.member_epoch)
    return dict(groups.committed(group)), groups.pending(group)


def _hide_unstable(
    topic: OffsetFetchResponseTopics, pending: frozenset[TopicPartition]
) -> Steps[None]:
    for one in topic.partitions:
        yield None
        if TopicPartition(topic.name, one.partition_index) in pending:
            one.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
            one.committed_offset, one.metadata = NOTHING.offset, NOTHING.metadata
            one.committed_leader_epoch = NOTHING.leader_epoch


def _everything(committed: Committed, context: Context) -> Steps[list[OffsetFetchRequestTopics]]:
    topics: dict[str, OffsetFetchRequestTopics] = {}
    for (name, index), offset in committed.items():
        yield None
        if _is_of_former_topic(offset, context.broker.find_topic(name)):
            continue
        topic = topics.get(name) or topics.setdefault(name, OffsetFetchRequestTopics(name=name))
        topic.partition_indexes.append(index)
    for topic in topics.values():
        topic.partition_indexes.sort()
    return [topics[name] for name in sorted(topics)]


def _topic(
    topic: OffsetFetchRequestTopics, committed: Committed, context: Context, code: ErrorCode
) -> Steps[OffsetFetchResponseTopics | None]:
    """One topic's offsets; None for a deleted topic, which has no id."""
    name, topic_id = topic.name, topic.topic_id
    if context.version >= FIRST_VERSION_WITH_IDS:
        try:
            by_name = topic_id == NO_UUID and name
            broker = context.broker
            hosted = broker.topic(name) if by_name else broker.topic_by_id(topic_id)
            name, topic_id = hosted.topic.name, hosted.topic.id.bytes
        except ApiError as error:
            if name:
                return None
            code = error.code
    current = context.broker.find_topic(name)
    answer = OffsetFetchResponseTopics(name=name, topic_id=topic_id)
    for index in topic.partition_indexes:
        found = committed.get(TopicPartition(name, index), NOTHING)
        if _is_of_former_topic(found, current):
            found = NOTHING
        answer.partitions.append(_partition(index, found, code))
        yield None
    return answer


def _is_of_former_topic(offset: CommittedOffset, hosted: HostedTopic | None) -> bool:
    """Whether the topic was recreated since: a shortage may have prevented the offset's deletion."""
    return hosted is not None and offset.topic_id not in (NO_UUID, hosted.topic.id.bytes)


def _partition(
    index: int, committed: CommittedOffset, code: ErrorCode
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )


def _for_one(answer: OffsetFetchResponseGroup, version: int) -> Steps[OffsetFetchResponse]:
    """The response before version 8; version 1 has errors only per partition."""
    has_error = version >= FIRST_VERSION_WITH_A_GROUP_ERROR
    response = OffsetFetchResponse(error_code=answer.error_code if has_error else 0)
    for found in answer.topics:
        topic = OffsetFetchResponseTopic(name=found.name)
        response.topics.append(topic)
        for one in found.partitions:
            yield None
            topic.partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
            )
    return response
