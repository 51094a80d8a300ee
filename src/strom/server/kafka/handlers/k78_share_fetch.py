"""ShareFetch, api key 78: acquire records of a share group, and acknowledge earlier ones.

Behaviour: long polling (max wait, min bytes), at most `max_records`, which batches may exceed unless the
client requires a strict limit; share sessions. Acknowledgements are durable before the response. Acquired
records belong to the member until their lock times out or its connection closes.
Versions: 2 strict limits (KIP-1206) and lock renewal (KIP-1222).
"""

import asyncio

from strom.broker.fetching import ChangesOfMany, ResponseMemory
from strom.broker.share_fetching import ShareFetch, ShareFetched, ShareLimits, WaitingShareFetch
from strom.broker.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, TopicIdPartition
from strom.broker.shared_partition import SharedPartition
from strom.coordination.groups.share.partitions.acquisition import AcquireLimits
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps, run_at_once
from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
from strom.server.kafka.response_memory import ReservedResponse, UnreservedResponse
from strom.server.kafka.share_acknowledging import (
    MAX_AT_ONCE,
    Acknowledgements,
    AcknowledgeResult,
    end_session,
    has_acknowledgements,
    needs_slices,
    session_key,
)
from strom.storage.region import Region
from strom.wire.kafka.messages.k78_share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

STRICTLY = 1


@handler(
    ShareFetchRequest,
    Needs(Operation.READ, Resource.GROUP),
    Needs(Operation.READ, Resource.TOPIC),
)
def share_fetch(request: ShareFetchRequest, context: Context) -> Outcome:
    """Acknowledge, then acquire; respond when acknowledgements are durable and records were found."""
    try:
        _check_renewing(request)
        session = _session(request, context)
    except ApiError as error:
        refused = ShareFetchResponse(error_code=error.code, error_message=error.message)
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return _after(
                request.max_wait_ms, refused
            )  # otherwise the client would retry in a busy loop
        return refused
    acknowledged = Acknowledgements(request, session.key, context)
    if needs_slices(request) or len(session.partitions) > MAX_AT_ONCE:
        return _fetch_in_slices(request, acknowledged, session, context)
    work = _work(request, session, UnreservedResponse(context.services.memory), context)
    if request.topics and work.must_search():
        return _fetch_in_slices(request, acknowledged, session, context)
    run_at_once(acknowledged.steps())
    if request.share_session_epoch == FINAL_EPOCH:
        end_session(session, context)
    fetched = work.poll() if _wants_any(request, session) else []
    if fetched is None and request.max_wait_ms <= 0:
        fetched = []
    if fetched is not None and acknowledged.is_done:
        return run_at_once(_response(fetched, acknowledged.results, context, session))
    return _later(_Answering(session, acknowledged, context), fetched, work)


def _wants_any(request: ShareFetchRequest, session: ShareSession) -> bool:
    return session.is_open and bool(session.partitions) and request.max_records > 0


async def _fetch_in_slices(
    request: ShareFetchRequest,
    acknowledged: Acknowledgements,
    session: ShareSession,
    context: Context,
) -> ShareFetchResponse:
    """Acknowledge and acquire: many batches or partitions, or some that are searched by time first."""
    run = context.long_work.run
    await run(acknowledged.steps())
    # A fetch may wait for minutes: free what only its request has needed.
    request.topics.clear()
    request.forgotten_topics_data.clear()
    if request.share_session_epoch == FINAL_EPOCH:
        end_session(session, context)
    fetched: list[ShareFetched] | None = []
    if _wants_any(request, session):
        work = _work(request, session, ReservedResponse(context.services.memory), context)
        fetched = await run(work.poll_steps())
        if fetched is None and request.max_wait_ms > 0:
            fetched = await _wait_for_many(work, session, context)
    await acknowledged.wait()
    return await run(_response(fetched or [], acknowledged.results, context, session))


async def _wait_for_many(
    work: ShareFetch, session: ShareSession, context: Context
) -> list[ShareFetched]:
    run = context.long_work.run
    services = context.services
    with ChangesOfMany(services.loop, work.limits.max_wait_ms, services.waits) as changes:
        # A client that has disconnected waits no longer.
        context.on_close.add(changes, changes.partition_changed)
        try:
            await run(work.register_steps(changes))
            while (fetched := await run(work.poll_steps())) is None and session.is_open:
                if not await changes.wait():
                    return await run(work.read_steps())
        finally:
            context.on_close.remove(changes)
    return fetched or []


class _Answering:
    """A response that waits for the disk, for records, or for both."""

    def __init__(
        self, session: ShareSession, acknowledged: Acknowledgements, context: Context
    ) -> None:
        self.answer: asyncio.Future[ShareFetchResponse] = context.services.loop.create_future()
        self.fetched: list[ShareFetched] | None = None
        self.acknowledged = acknowledged
        self._session = session
        self._context = context

    def look(self) -> None:
        """Respond if nothing is missing any more."""
        if self.fetched is None or not self.acknowledged.is_done or self.answer.done():
            return
        response = _response(self.fetched, self.acknowledged.results, self._context, self._session)
        self.answer.set_result(run_at_once(response))


def _later(
    answering: _Answering, fetched: list[ShareFetched] | None, work: ShareFetch
) -> "asyncio.Future[ShareFetchResponse]":
    answering.fetched = fetched
    if fetched is None:
        waiting = WaitingShareFetch(work, answering.answer.get_loop())

        def on_found(_: object) -> None:
            if not waiting.answer.cancelled():
                answering.fetched = waiting.answer.result()
                answering.look()

        waiting.answer.add_done_callback(on_found)
        answering.answer.add_done_callback(lambda _: waiting.answer.cancel())
    answering.acknowledged.on_done(answering.look)
    return answering.answer


def _after(wait_ms: int, answer: ShareFetchResponse) -> Outcome:
    loop = asyncio.get_running_loop()
    later: asyncio.Future[ShareFetchResponse] = loop.create_future()
    timer = loop.call_later(max(wait_ms, 0) / 1000, lambda: later.set_result(answer))
    later.add_done_callback(lambda _: timer.cancel())
    return later


def _check_renewing(request: ShareFetchRequest) -> None:
    """A request that renews locks cannot fetch."""
    asks_for_more = (
        request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    )
    if request.is_renew_ack and asks_for_more:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A request that renews locks must have all fetch limits set to zero.",
        )


def _session(request: ShareFetchRequest, context: Context) -> ShareSession:
    key, sessions = session_key(request), context.shares.sessions
    if request.share_session_epoch == FINAL_EPOCH:
        return sessions.end(key)
    if request.share_session_epoch == INITIAL_EPOCH:
        if has_acknowledgements(request):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "The first request of a session cannot acknowledge records.",
            )
        session = sessions.begin(key)
        shares = context.shares
        context.on_close.add(key, lambda: shares.connection_lost(session))
    else:
        session = sessions.go_on(key, request.share_session_epoch)
    session.change(
        [
            (topic.topic_id, one.partition_index)
            for topic in request.topics
            for one in topic.partitions
        ],
        [
            (topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
    )
    return session


def _work(
    request: ShareFetchRequest,
    session: ShareSession,
    memory: ResponseMemory,
    context: Context,
) -> ShareFetch:
    shares, group = context.shares, session.key.group
    limits = ShareLimits(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=min(request.max_bytes, context.broker.settings.fetch_max_bytes),
        acquire=AcquireLimits(
            request.max_records,
            max(request.batch_size, 1),
            strict=request.share_acquire_mode == STRICTLY,
        ),
    )

    def find(partition: TopicIdPartition) -> SharedPartition:
        return shares.partition(group, *partition)

    return ShareFetch(session, limits, find, memory)


def _response(
    fetched: list[ShareFetched],
    acknowledged: dict[TopicIdPartition, AcknowledgeResult],
    context: Context,
    session: ShareSession,
) -> Steps[ShareFetchResponse]:
    partitions = {}
    for one in fetched:
        partitions[one.partition] = _partition_data(one)
        yield None
    for place, result in acknowledged.items():
        yield None
        data = partitions.get(place)
        if data is None:
            data = partitions[place] = PartitionData(partition_index=place[1], records=b"")
        data.acknowledge_error_code = result.code
        data.acknowledge_error_message = result.message
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for (topic_id, _), data in partitions.items():
        yield None
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
        topic.partitions.append(data)
    settings = context.shares.context.settings_of(session.key.group)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=settings.share_record_lock_duration_ms,
        responses=list(topics.values()),
    )


def _partition_data(one: ShareFetched) -> PartitionData:
    return PartitionData(
        partition_index=one.partition[1],
        error_code=one.error,
        error_message=one.message,
        records=[one.records] if isinstance(one.records, Region) else one.records,
        acquired_records=[
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=deliveries)
            for first, last, deliveries in one.acquired
        ],
    )
