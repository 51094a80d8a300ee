"""Fetch, api key 1: read record batches, with long polling.

Behaviour: long polling (max wait, min bytes), limits per partition and in total, isolation level, fetch
sessions (KIP-227). The first batch is sent regardless of its size, so that consumers make progress
(KIP-74). Versions: 7 sessions, 9 leader epochs, 12 flexible, 13 topic ids.
"""

from collections.abc import Callable, Iterable, Iterator

from strom.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession
from strom.broker.fetching import (
    ChangesOfMany,
    Fetch,
    Fetched,
    FetchLimits,
    ResponseMemory,
    TopicKey,
    WaitingFetch,
    WantedPartition,
)
from strom.broker.partition import Partition
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps
from strom.server.kafka.api import (
    Context,
    Needs,
    Operation,
    Outcome,
    ReadOnly,
    Resource,
    handler,
)
from strom.server.kafka.response_memory import ReservedResponse, UnreservedResponse
from strom.storage.region import Region
from strom.wire.kafka.messages.k01_fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from strom.wire.kafka.schema import NO_UUID

FIRST_VERSION_WITH_IDS = 13
FIRST_VERSION_WITH_SESSIONS = 7
READ_COMMITTED = 1
MAX_AT_ONCE = 50
"""Partitions that are read in one turn of the event loop: a few milliseconds."""


@handler(FetchRequest, Needs(Operation.READ, Resource.TOPIC))
def fetch(request: FetchRequest, context: Context) -> Outcome:
    """Respond at once if there is enough to send, else when there is or at the timeout."""
    if _count(request) > MAX_AT_ONCE:
        return ReadOnly(_fetch_many(request, context))
    wanted = list(dict(_wanted(request, context)).values())
    try:
        session, full = _session(request, wanted, list(_forgotten(request, context)), context)
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    if session:
        wanted = session.wanted()
        session = _end_if_empty(session, context)
        if len(wanted) > MAX_AT_ONCE:
            return ReadOnly(_respond_to_many(request, wanted, session, context, full=full))
    if _comes_from_a_replica(request):
        refused = [Fetched(item, error=ErrorCode.NOT_LEADER_OR_FOLLOWER) for item in wanted]
        return _response(refused, NO_SESSION, FetchLimits(0, 0, 0))
    work = _work(request, wanted, UnreservedResponse(context.services.memory), context)

    def answer(fetched: list[Fetched]) -> FetchResponse:
        news = session.news(fetched, full=full) if session else fetched
        return _response(news, session.id if session else NO_SESSION, work.limits)

    if work.limits.max_wait_ms <= 0 or work.is_ready():
        return answer(work.read())
    return _later(WaitingFetch(work, context.services.loop), answer)


def _count(request: FetchRequest) -> int:
    count = sum(len(topic.partitions) or 1 for topic in request.topics)
    return count + sum(len(topic.partitions) or 1 for topic in request.forgotten_topics_data)


def _work(
    request: FetchRequest,
    wanted: list[WantedPartition],
    memory: ResponseMemory,
    context: Context,
) -> Fetch:
    limits = FetchLimits(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=min(request.max_bytes, context.broker.settings.fetch_max_bytes),
        committed_only=request.isolation_level == READ_COMMITTED,
    )
    return Fetch(wanted, limits, lambda item: _partition(item, context), memory)


async def _fetch_many(request: FetchRequest, context: Context) -> FetchResponse:
    """Fetch from many partitions: the same, in slices."""
    run = context.long_work.run
    wanted = await run(_wanted_steps(request, context))
    try:
        session, full = _session(request, wanted[:MAX_AT_ONCE], (), context)
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    if session:
        forgotten = () if full else _forgotten(request, context)
        await run(_change_steps(session, wanted[MAX_AT_ONCE:], forgotten))
        wanted = session.wanted()
        session = _end_if_empty(session, context)
    return await _respond_to_many(request, wanted, session, context, full=full)


def _change_steps(
    session: FetchSession,
    wanted: list[WantedPartition],
    forgotten: Iterable[tuple[TopicKey, int]],
) -> Steps[None]:
    for item in wanted:
        session.change((item,), ())
        yield None
    for key in forgotten:
        session.change((), (key,))
        yield None


async def _respond_to_many(
    request: FetchRequest,
    wanted: list[WantedPartition],
    session: FetchSession | None,
    context: Context,
    *,
    full: bool,
) -> FetchResponse:
    run = context.long_work.run
    # A fetch may wait for days: free what only its request has needed.
    request.topics, request.forgotten_topics_data = [], []
    work = _work(request, wanted, ReservedResponse(context.services.memory), context)
    if _comes_from_a_replica(request):
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        refused = (Fetched(item, error=code) for item in wanted)
        return await run(_response_steps(refused, NO_SESSION, work.limits))
    if work.limits.max_wait_ms > 0 and not await run(work.ready_steps()):
        services = context.services
        with ChangesOfMany(services.loop, work.limits.max_wait_ms, services.waits) as changes:
            await run(work.register_steps(changes))
            while not await run(work.ready_steps()):
                if not await changes.wait():
                    break
    fetched: Iterable[Fetched] = await run(work.read_steps())
    if session is None:
        return await run(_response_steps(fetched, NO_SESSION, work.limits))
    news = (each for item in fetched for each in session.news((item,), full=full))
    return await run(_response_steps(news, session.id, work.limits))


def _later(waiting: WaitingFetch, answer: Callable[[list[Fetched]], FetchResponse]) -> Outcome:
    response = waiting.answer.get_loop().create_future()

    def deliver(_: object) -> None:
        if not response.done():
            response.set_result(answer(waiting.answer.result()))

    def abandon(_: object) -> None:
        waiting.answer.cancel()

    waiting.answer.add_done_callback(deliver)
    response.add_done_callback(abandon)
    return response


def _session(
    request: FetchRequest,
    wanted: list[WantedPartition],
    forgotten: Iterable[tuple[TopicKey, int]],
    context: Context,
) -> tuple[FetchSession | None, bool]:
    """The session of this request, and whether the response must be full."""
    sessions = context.services.fetch_sessions
    now_ms = context.broker.clock.now_ms()
    if context.version < FIRST_VERSION_WITH_SESSIONS:
        return None, True
    if request.session_epoch == FINAL_EPOCH:
        sessions.end(request.session_id)
        return None, True
    if request.session_epoch == INITIAL_EPOCH:
        sessions.end(request.session_id)
        return sessions.begin(wanted, now_ms), True
    session = sessions.go_on(request.session_id, request.session_epoch, now_ms)
    if session.uses_ids != (context.version >= FIRST_VERSION_WITH_IDS):
        raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    session.change(wanted, forgotten)
    return session, False


def _comes_from_a_replica(request: FetchRequest) -> bool:
    """Whether a follower fetches: this broker has none."""
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)


def _end_if_empty(session: FetchSession, context: Context) -> FetchSession | None:
    """As in Kafka, a session whose partitions are all forgotten has ended."""
    if session.partitions:
        return session
    context.services.fetch_sessions.end(session.id)
    return None


def _topic_key(name: str, topic_id: bytes, context: Context) -> TopicKey:
    if context.version >= FIRST_VERSION_WITH_IDS:
        return TopicKey(None, topic_id)
    return TopicKey(name, None)


def _wanted(
    request: FetchRequest, context: Context
) -> Iterator[tuple[tuple[TopicKey, int], WantedPartition]]:
    """The requested partitions by their keys; of duplicates the last one wins, as in Kafka."""
    for topic in request.topics:
        key = _topic_key(topic.topic, topic.topic_id, context)
        for partition in topic.partitions:
            yield (
                (key, partition.partition),
                WantedPartition(
                    key,
                    partition.partition,
                    partition.fetch_offset,
                    partition.partition_max_bytes,
                    partition.current_leader_epoch,
                ),
            )


def _wanted_steps(request: FetchRequest, context: Context) -> Steps[list[WantedPartition]]:
    wanted = {}
    for key, item in _wanted(request, context):
        wanted[key] = item
        yield None
    return list(wanted.values())


def _forgotten(request: FetchRequest, context: Context) -> Iterator[tuple[TopicKey, int]]:
    for topic in request.forgotten_topics_data:
        key = _topic_key(topic.topic, topic.topic_id, context)
        for partition in topic.partitions:
            yield key, partition


def _partition(wanted: WantedPartition, context: Context) -> Partition:
    name, topic_id = wanted.topic
    broker = context.broker
    hosted = broker.topic(name) if name is not None else broker.topic_by_id(topic_id or NO_UUID)
    return hosted.partition(wanted.partition)


def _response(fetched: Iterable[Fetched], session_id: int, limits: FetchLimits) -> FetchResponse:
    response = FetchResponse(session_id=session_id)
    topics: dict[TopicKey, FetchableTopicResponse] = {}
    for item in fetched:
        _add(item, topics, response, limits)
    return response


def _response_steps(
    fetched: Iterable[Fetched], session_id: int, limits: FetchLimits
) -> Steps[FetchResponse]:
    response = FetchResponse(session_id=session_id)
    topics: dict[TopicKey, FetchableTopicResponse] = {}
    for item in fetched:
        _add(item, topics, response, limits)
        yield None
    return response


def _add(
    item: Fetched,
    topics: dict[TopicKey, FetchableTopicResponse],
    response: FetchResponse,
    limits: FetchLimits,
) -> None:
    key = item.wanted.topic
    topic = topics.get(key)
    if topic is None:
        topic = topics[key] = FetchableTopicResponse(
            topic=key.name or "", topic_id=key.id or NO_UUID
        )
        response.responses.append(topic)
    topic.partitions.append(_partition_data(item, limits))


def _partition_data(item: Fetched, limits: FetchLimits) -> PartitionData:
    aborted = None
    if limits.committed_only and item.error is ErrorCode.NONE:
        aborted = [
            AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)
            for txn in item.aborted
        ]
    return PartitionData(
        partition_index=item.wanted.partition,
        error_code=item.error,
        high_watermark=item.high_watermark,
        last_stable_offset=item.last_stable_offset,
        log_start_offset=item.start_offset,
        aborted_transactions=aborted,
        records=[item.records] if isinstance(item.records, Region) else item.records,
    )
