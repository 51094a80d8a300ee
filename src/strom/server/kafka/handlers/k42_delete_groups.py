"""DeleteGroups, api key 42: forget groups that have no members, with their offsets."""

from strom.coordination.groups.commands import DeleteGroup
from strom.server.kafka.context import Context
from strom.server.kafka.registry import Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@handler(DeleteGroupsRequest, Needs(Operation.DELETE, Resource.GROUP))
async def delete_groups(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    """Delete each one on its own; of a name that comes twice, once."""
    results = []
    for name in dict.fromkeys(request.groups_names):
        answered = await context.groups.submit(DeleteGroup(group=name))
        results.append(DeletableGroupResult(group_id=name, error_code=answered.code))
    return DeleteGroupsResponse(results=results)
