"""SyncGroup, api key 14: fetch the assignment of a member; the leader submits all.

Behaviour: the response waits for the leader, and until the assignments are durable. Versions: 3 static
members, 5 the protocol is checked.
"""

from strom.coordination.groups.commands import SyncGroup, SyncResponse
from strom.server.kafka.api import Context, Needs, Operation, PendingResponse, Resource, handler
from strom.wire.kafka.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL = 5


@handler(SyncGroupRequest, Needs(Operation.READ, Resource.GROUP))
def sync_group(request: SyncGroupRequest, context: Context) -> PendingResponse[SyncGroupResponse]:
    command = SyncGroup(
        group=request.group_id,
        generation=request.generation_id,
        member=request.member_id,
        instance=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple((one.member_id, one.assignment) for one in request.assignments),
    )
    return PendingResponse(context.groups.submit(command), _response)


def _response(synced: SyncResponse) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.code,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )
