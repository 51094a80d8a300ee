"""DeleteGroups, api key 42: delete groups without members, with their offsets."""

from strom.coordination.groups.commands import DeleteGroup
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.server.kafka.long_work import Pauses
from strom.wire.kafka.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@handler(DeleteGroupsRequest, Needs(Operation.DELETE, Resource.GROUP))
async def delete_groups(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    """Delete each group once; duplicates have the same result."""
    response = DeleteGroupsResponse()
    pause = context.long_work.pauses()
    for name in dict.fromkeys(request.groups_names):
        await pause()
        response.results.append(
            DeletableGroupResult(group_id=name, error_code=await _delete(name, context, pause))
        )
    return response


async def _delete(name: str, context: Context, pause: Pauses) -> ErrorCode:
    try:
        with context.shares.administering(name):
            shared = context.groups.look().find_share(name)
            if shared is not None and shared.is_empty:
                await context.shares.forget(name, pause)
            code: ErrorCode = (await context.groups.submit(DeleteGroup(group=name))).code
            return code
    except ApiError as error:
        return error.code
