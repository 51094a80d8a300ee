"""Heartbeat, api key 12: stay a member of a classic group. Versions: 3 static members."""

from strom.coordination.groups.commands import Heartbeat
from strom.server.kafka.api import Context, Needs, Operation, PendingResponse, Resource, handler
from strom.wire.kafka.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse


@handler(HeartbeatRequest, Needs(Operation.READ, Resource.GROUP))
def heartbeat(request: HeartbeatRequest, context: Context) -> PendingResponse[HeartbeatResponse]:
    """Renew the member's session; REBALANCE_IN_PROGRESS if it must rejoin."""
    command = Heartbeat(
        group=request.group_id,
        generation=request.generation_id,
        member=request.member_id,
        instance=request.group_instance_id,
    )
    return PendingResponse(
        context.groups.submit(command), lambda answered: HeartbeatResponse(error_code=answered.code)
    )
