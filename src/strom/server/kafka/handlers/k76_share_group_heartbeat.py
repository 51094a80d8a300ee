"""ShareGroupHeartbeat, api key 76: join, stay in and leave a share group.

Behaviour: the member generates its id. The response has the assignment whenever it has changed.
"""

from strom.coordination.groups.share.protocol import (
    LEAVING,
    NEW_EPOCH,
    ShareHeartbeat,
    ShareHeartbeatResponse,
)
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.server.kafka.handlers.k68_consumer_group_heartbeat import to_assignment
from strom.server.kafka.share_acknowledging import MOST_MEMBER_ID_LENGTH
from strom.wire.kafka.messages.k76_share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


@handler(
    ShareGroupHeartbeatRequest,
    Needs(Operation.READ, Resource.GROUP),
    Needs(Operation.DESCRIBE, Resource.TOPIC),
)
async def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, context: Context
) -> ShareGroupHeartbeatResponse:
    try:
        _check(request)
        await context.shares.state_log.ensure_topic()
        if request.member_epoch == NEW_EPOCH:
            context.shares.check_not_administered(request.group_id)
    except ApiError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    topics = request.subscribed_topic_names
    answered: ShareHeartbeatResponse = await context.groups.submit(
        ShareHeartbeat(
            group=request.group_id,
            member=request.member_id,
            epoch=request.member_epoch,
            rack=request.rack_id,
            topics=None if topics is None else tuple(topics),
            client_id=context.client_id or "",
            client_host=context.client_host,
        )
    )
    if answered.code is not ErrorCode.NONE:
        return ShareGroupHeartbeatResponse(
            error_code=answered.code, error_message=answered.message or answered.code.text
        )
    partitions = answered.partitions
    return ShareGroupHeartbeatResponse(
        member_id=answered.member,
        member_epoch=answered.epoch,
        heartbeat_interval_ms=answered.heartbeat_ms,
        assignment=None if partitions is None else to_assignment(partitions.items()),
    )


def _check(request: ShareGroupHeartbeatRequest) -> None:
    problem = None
    if not request.group_id:
        problem = "GroupId can't be empty."
    elif not request.member_id or len(request.member_id) > MOST_MEMBER_ID_LENGTH:
        problem = "MemberId must have between 1 and 36 characters."
    elif request.member_epoch < LEAVING:
        problem = "MemberEpoch is invalid."
    elif request.rack_id is not None and not request.rack_id:
        problem = "RackId can't be empty."
    elif request.member_epoch == NEW_EPOCH and not request.subscribed_topic_names:
        problem = "SubscribedTopicNames must be set in first request."
    if problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
