"""LeaveGroup, api key 13: remove members from a group. Versions: 3 several, or by instance id."""

from strom.coordination.groups.commands import LeaveGroup, LeaveResponse, LeavingMember
from strom.model.errors import ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

FIRST_VERSION_WITH_MANY = 3
MAX_AT_ONCE = 500
"""Members that leave in one turn of the event loop: a few milliseconds."""


@handler(LeaveGroupRequest, Needs(Operation.READ, Resource.GROUP))
async def leave_group(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    leavers = request.members
    if context.version < FIRST_VERSION_WITH_MANY:
        leavers = [MemberIdentity(member_id=request.member_id)]
    left = await _leave(request.group_id, leavers, context)
    if context.version < FIRST_VERSION_WITH_MANY:
        return LeaveGroupResponse(error_code=left.code or left.members[0])
    response = LeaveGroupResponse(error_code=left.code)
    pause = context.long_work.pauses()
    for one, code in zip(leavers, left.members, strict=False):
        await pause()
        response.members.append(
            MemberResponse(
                member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code
            )
        )
    return response


async def _leave(group: str, leavers: list[MemberIdentity], context: Context) -> LeaveResponse:
    """Remove the members; more than a few hundred leave one after the other, as if by two requests."""
    pause = context.long_work.pauses()
    pending = []
    for first in range(0, max(1, len(leavers)), MAX_AT_ONCE):
        await pause()
        some = leavers[first : first + MAX_AT_ONCE]
        leaving = tuple(LeavingMember(one.member_id, one.group_instance_id) for one in some)
        pending.append(context.groups.submit(LeaveGroup(group=group, leavers=leaving)))
    codes: list[ErrorCode] = []
    for ticket in pending:
        left: LeaveResponse = await ticket
        if left.code is not ErrorCode.NONE:
            return left
        codes += left.members
    return LeaveResponse(members=tuple(codes))
