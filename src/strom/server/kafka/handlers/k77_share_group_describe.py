"""ShareGroupDescribe, api key 77: state, members and partitions of share groups."""

from strom.coordination.groups.share.protocol import ASSIGNOR, ShareGroup, ShareGroupMember
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import GROUP_OPERATIONS, Context, Needs, Operation, Resource, handler
from strom.server.kafka.handlers.k69_consumer_group_describe import to_described_assignment
from strom.wire.kafka.messages.k77_share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


@handler(
    ShareGroupDescribeRequest,
    Needs(Operation.DESCRIBE, Resource.GROUP),
    Needs(Operation.DESCRIBE, Resource.TOPIC),
)
async def share_group_describe(
    request: ShareGroupDescribeRequest, context: Context
) -> ShareGroupDescribeResponse:
    # As in Kafka, the response repeats a group that the request repeats.
    described: dict[str, DescribedGroup] = {}
    pause = context.long_work.pauses()
    for name in request.group_ids:
        if name not in described:
            described[name] = await _describe(name, context)
        await pause()
    groups = [described[name] for name in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ShareGroupDescribeResponse(groups=groups)


async def _describe(name: str, context: Context) -> DescribedGroup:
    if not name:
        return DescribedGroup(group_id=name, error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        return await context.groups.read(
            name, lambda groups: _described(name, groups.find_share(name), context)
        )
    except ApiError as error:
        return DescribedGroup(group_id=name, error_code=error.code, error_message=error.message)


def _described(name: str, group: ShareGroup | None, context: Context) -> DescribedGroup:
    if group is None:
        is_other = context.groups.look().find(name) is not None
        return DescribedGroup(
            group_id=name,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {name} {'is not a share group' if is_other else 'not found'}.",
        )
    return DescribedGroup(
        group_id=name,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member, context) for member in group.members.values()],
    )


def _member(member: ShareGroupMember, context: Context) -> Member:
    return Member(
        member_id=member.id,
        rack_id=member.subscription.rack,
        member_epoch=member.assigned.epoch,
        client_id=member.subscription.client_id,
        client_host=member.subscription.client_host,
        subscribed_topic_names=list(member.subscription.topics),
        assignment=to_described_assignment(member.assigned.partitions.items(), context),
    )
