"""DeleteGroups, api key 42: delete groups without members, with their offsets."""

from strom.coordination.groups.commands import DeleteGroup
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@handler(DeleteGroupsRequest, Needs(Operation.DELETE, Resource.GROUP))
async def delete_groups(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    """Delete each group once; duplicates have the same result."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=name, error_code=await _delete(name, context))
            for name in dict.fromkeys(request.groups_names)
        ]
    )


async def _delete(name: str, context: Context) -> ErrorCode:
    shared = context.groups.look().find_share(name)
    if shared is not None and shared.is_empty:
        try:
            await context.shares.forget(name)
        except ApiError as error:
            return error.code
    code: ErrorCode = (await context.groups.submit(DeleteGroup(group=name))).code
    return code
