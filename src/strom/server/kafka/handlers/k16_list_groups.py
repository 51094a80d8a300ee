"""ListGroups, api key 16. Versions: 4 only those in some states, 5 only those of some types."""

from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k16_list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


@handler(
    ListGroupsRequest,
    Needs(Operation.DESCRIBE, Resource.CLUSTER),
    Needs(Operation.DESCRIBE, Resource.GROUP),
)
def list_groups(request: ListGroupsRequest, context: Context) -> Steps[ListGroupsResponse]:
    """The groups that match both filters; an empty filter matches all."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    response = ListGroupsResponse()
    for group in context.groups.look().all_groups():
        yield None
        state, kind = group.state_name, group.kind.value.lower()
        if (not states or state.lower() in states) and (not types or kind in types):
            response.groups.append(
                ListedGroup(
                    group_id=group.id,
                    protocol_type=group.protocol_type,
                    group_state=state,
                    group_type=kind,
                )
            )
    return response
