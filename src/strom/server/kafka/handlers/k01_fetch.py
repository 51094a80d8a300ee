"""Fetch, api key 1: read record batches, with long polling.

Behaviour: long polling (max wait, min bytes), limits per partition and in total, isolation level, fetch
sessions (KIP-227). The first batch is sent regardless of its size, so that consumers make progress
(KIP-74). Versions: 7 sessions, 9 leader epochs, 12 flexible, 13 topic ids.
"""

from collections.abc import Callable

from strom.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession
from strom.broker.fetching import (
    Fetch,
    Fetched,
    FetchLimits,
    TopicKey,
    WaitingFetch,
    WantedPartition,
)
from strom.broker.partition import Partition
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
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


@handler(FetchRequest, Needs(Operation.READ, Resource.TOPIC))
def fetch(request: FetchRequest, context: Context) -> Outcome:
    """Respond at once if there is enough to send, else when there is or at the timeout."""
    try:
        session, full = _session(request, context)
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    wanted = session.wanted() if session else _wanted(request, context)
    if _comes_from_a_replica(request):
        refused = [Fetched(item, error=ErrorCode.NOT_LEADER_OR_FOLLOWER) for item in wanted]
        return _response(refused, NO_SESSION, FetchLimits(0, 0, 0))
    limits = FetchLimits(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=min(request.max_bytes, context.broker.settings.fetch_max_bytes),
        committed_only=request.isolation_level == READ_COMMITTED,
    )
    memory = context.services.memory
    work = Fetch(wanted, limits, lambda item: _partition(item, context), lambda: memory.free)

    def answer(fetched: list[Fetched]) -> FetchResponse:
        told = session.news(fetched, full=full) if session else fetched
        return _response(told, session.id if session else NO_SESSION, limits)

    if limits.max_wait_ms <= 0 or work.is_ready():
        return answer(work.read())
    return _later(WaitingFetch(work, context.services.loop), answer)


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


def _session(request: FetchRequest, context: Context) -> tuple[FetchSession | None, bool]:
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
        return sessions.begin(_wanted(request, context), now_ms), True
    session = sessions.go_on(request.session_id, request.session_epoch, now_ms)
    if session.uses_ids != (context.version >= FIRST_VERSION_WITH_IDS):
        raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    forgotten = [
        (_topic_key(topic.topic, topic.topic_id, context), partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    session.change(_wanted(request, context), forgotten)
    return session, False


def _comes_from_a_replica(request: FetchRequest) -> bool:
    """Whether a follower fetches: this broker has none."""
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)


def _topic_key(name: str, topic_id: bytes, context: Context) -> TopicKey:
    if context.version >= FIRST_VERSION_WITH_IDS:
        return TopicKey(None, topic_id)
    return TopicKey(name, None)


def _wanted(request: FetchRequest, context: Context) -> list[WantedPartition]:
    """The requested partitions; of duplicates the last one wins, as in Kafka."""
    wanted: dict[tuple[TopicKey, int], WantedPartition] = {}
    for topic in request.topics:
        key = _topic_key(topic.topic, topic.topic_id, context)
        for partition in topic.partitions:
            wanted[key, partition.partition] = WantedPartition(
                key,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
            )
    return list(wanted.values())


def _partition(wanted: WantedPartition, context: Context) -> Partition:
    name, topic_id = wanted.topic
    broker = context.broker
    hosted = broker.topic(name) if name is not None else broker.topic_by_id(topic_id or NO_UUID)
    return hosted.partition(wanted.partition)


def _response(fetched: list[Fetched], session_id: int, limits: FetchLimits) -> FetchResponse:
    topics: dict[TopicKey, FetchableTopicResponse] = {}
    for item in fetched:
        key = item.wanted.topic
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchableTopicResponse(
                topic=key.name or "", topic_id=key.id or NO_UUID
            )
        topic.partitions.append(_partition_data(item, limits))
    return FetchResponse(session_id=session_id, responses=list(topics.values()))


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
