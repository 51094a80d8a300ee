"""LeaveGroup, api key 13: remove members from a group. Versions: 3 several, or by instance id."""

from strom.coordination.groups.commands import LeaveGroup, LeaveResponse, LeavingMember
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

FIRST_VERSION_WITH_MANY = 3


@handler(LeaveGroupRequest, Needs(Operation.READ, Resource.GROUP))
async def leave_group(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    leavers = request.members
    if context.version < FIRST_VERSION_WITH_MANY:
        leavers = [MemberIdentity(member_id=request.member_id)]
    left: LeaveResponse = await context.groups.submit(
        LeaveGroup(
            group=request.group_id,
            leavers=tuple(LeavingMember(one.member_id, one.group_instance_id) for one in leavers),
        )
    )
    if context.version < FIRST_VERSION_WITH_MANY:
        return LeaveGroupResponse(error_code=left.code or left.members[0])
    return LeaveGroupResponse(
        error_code=left.code,
        members=[
            MemberResponse(
                member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code
            )
            for one, code in zip(leavers, left.members, strict=False)
        ],
    )
