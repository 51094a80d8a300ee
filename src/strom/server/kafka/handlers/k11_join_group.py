"""JoinGroup, api key 11: become a member of a classic group.

Behaviour: the response waits until all members have joined, or until the rebalance timeout. Versions: 1 a
rebalance timeout, 4 a new member first gets its id (MEMBER_ID_REQUIRED, KIP-394), 5 static members, 9 a
returning static leader skips the assignment (KIP-814).
"""

import uuid

from strom.coordination.groups.commands import JoinGroup, JoinResponse
from strom.server.kafka.api import Context, Needs, Operation, PendingResponse, Resource, handler
from strom.wire.kafka.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

FIRST_VERSION_WITH_KNOWN_IDS = 4
FIRST_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_VERSION_WITH_SKIPPING = 9


@handler(JoinGroupRequest, Needs(Operation.READ, Resource.GROUP))
def join_group(request: JoinGroupRequest, context: Context) -> PendingResponse[JoinGroupResponse]:
    rebalance_timeout_ms = request.rebalance_timeout_ms
    command = JoinGroup(
        group=request.group_id,
        member=request.member_id,
        fresh="" if request.member_id else str(uuid.uuid4()),
        instance=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=context.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, one.metadata) for one in request.protocols),
        needs_known_id=context.version >= FIRST_VERSION_WITH_KNOWN_IDS,
        can_skip_assignment=context.version >= FIRST_VERSION_WITH_SKIPPING,
    )
    return PendingResponse(
        context.groups.submit(command), lambda joined: _response(joined, context.version)
    )


def _response(joined: JoinResponse, version: int) -> JoinGroupResponse:
    may_be_null = version >= FIRST_VERSION_WITH_NULL_PROTOCOL
    return JoinGroupResponse(
        error_code=joined.code,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if may_be_null else joined.protocol or "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member,
        members=[
            JoinGroupResponseMember(
                member_id=member.id,
                group_instance_id=member.instance,
                metadata=member.subscription,
            )
            for member in joined.members
        ],
    )
