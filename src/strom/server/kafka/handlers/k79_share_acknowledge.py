"""ShareAcknowledge, api key 79: acknowledge acquired records without fetching more.

Behaviour: each partition has its own result, all or nothing, when it is durable. The last request of a
session releases the remaining records. Versions: 2 lock renewal (KIP-1222).
"""

import asyncio

from strom.broker.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, TopicIdPartition
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps, run_at_once
from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
from strom.server.kafka.share_acknowledging import (
    Acknowledgements,
    AcknowledgeResult,
    end_session,
    needs_slices,
    session_key,
)
from strom.wire.kafka.messages.k79_share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


@handler(
    ShareAcknowledgeRequest,
    Needs(Operation.READ, Resource.GROUP),
    Needs(Operation.READ, Resource.TOPIC),
)
def share_acknowledge(request: ShareAcknowledgeRequest, context: Context) -> Outcome:
    try:
        session = _session(request, context)
    except ApiError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    acknowledged = Acknowledgements(request, session.key, context)
    if needs_slices(request):
        return _acknowledge_in_slices(request, acknowledged, session, context)
    run_at_once(acknowledged.steps())
    if request.share_session_epoch == FINAL_EPOCH:
        end_session(session, context)
    if acknowledged.is_done:
        return run_at_once(_response(acknowledged.results, session, context))
    answer: asyncio.Future[ShareAcknowledgeResponse] = context.services.loop.create_future()

    def give() -> None:
        if not answer.done():
            answer.set_result(run_at_once(_response(acknowledged.results, session, context)))

    acknowledged.on_done(give)
    return answer


async def _acknowledge_in_slices(
    request: ShareAcknowledgeRequest,
    acknowledged: Acknowledgements,
    session: ShareSession,
    context: Context,
) -> ShareAcknowledgeResponse:
    """Acknowledge in many partitions, or in many batches: the same, in slices."""
    await context.long_work.run(acknowledged.steps())
    if request.share_session_epoch == FINAL_EPOCH:
        end_session(session, context)
    await acknowledged.wait()
    return await context.long_work.run(_response(acknowledged.results, session, context))


def _session(request: ShareAcknowledgeRequest, context: Context) -> ShareSession:
    key, sessions = session_key(request), context.shares.sessions
    if request.share_session_epoch == INITIAL_EPOCH:
        raise ApiError(
            ErrorCode.INVALID_SHARE_SESSION_EPOCH, "A share session must be opened by ShareFetch."
        )
    if request.share_session_epoch == FINAL_EPOCH:
        return sessions.end(key)
    return sessions.go_on(key, request.share_session_epoch)


def _response(
    results: dict[TopicIdPartition, AcknowledgeResult], session: ShareSession, context: Context
) -> Steps[ShareAcknowledgeResponse]:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), result in results.items():
        yield None
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id=topic_id)
        topic.partitions.append(
            PartitionData(
                partition_index=index, error_code=result.code, error_message=result.message
            )
        )
    settings = context.shares.context.settings_of(session.key.group)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=settings.share_record_lock_duration_ms,
        responses=list(topics.values()),
    )
