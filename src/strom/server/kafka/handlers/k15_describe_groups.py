"""DescribeGroups, api key 15: state, members and assignments of classic groups.

Behaviour: an unknown group is described as dead; since version 6 as GROUP_ID_NOT_FOUND. Subscriptions are
returned only while the group is stable.
"""

from strom.coordination.groups.classic.group import ClassicGroup, ClassicMember
from strom.coordination.groups.classic.states import GroupState
from strom.coordination.groups.coordinator import GroupCoordinator
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import GROUP_OPERATIONS, Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

FIRST_VERSION_WITH_NOT_FOUND = 6


@handler(DescribeGroupsRequest, Needs(Operation.DESCRIBE, Resource.GROUP))
async def describe_groups(
    request: DescribeGroupsRequest, context: Context
) -> DescribeGroupsResponse:
    # As in Kafka, the response repeats a group that the request repeats.
    described: dict[str, DescribedGroup] = {}
    pause = context.long_work.pauses()
    for name in request.groups:
        if name not in described:
            described[name] = await _describe(name, context)
        await pause()
    groups = [described[name] for name in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


async def _describe(name: str, context: Context) -> DescribedGroup:
    try:
        return await context.groups.read(name, lambda groups: _find(name, groups, context.version))
    except ApiError as error:
        return DescribedGroup(group_id=name, error_code=error.code)


def _find(name: str, groups: GroupCoordinator, version: int) -> DescribedGroup:
    group = groups.find_classic(name)
    if group is not None:
        return _described(name, group)
    answer = DescribedGroup(group_id=name, group_state=GroupState.DEAD.value)
    if version >= FIRST_VERSION_WITH_NOT_FOUND:
        exists = groups.find(name) is not None
        answer.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        answer.error_message = (
            f"Group {name} {'is not a classic group.' if exists else 'not found.'}"
        )
    return answer


def _described(name: str, group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=name,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            _member(member, group.protocol, tell=is_stable) for member in group.members.values()
        ],
    )


def _member(member: ClassicMember, protocol: str | None, *, tell: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.instance,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.subscription(protocol) if tell else b"",
        member_assignment=member.assignment,
    )
