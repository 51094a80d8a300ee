"""ListGroups, api key 16. Versions: 4 only those in some states, 5 only those of some types."""

from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
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
def list_groups(request: ListGroupsRequest, context: Context) -> Outcome:
    """The groups that match both filters; an empty filter matches all."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = [
        ListedGroup(
            group_id=group.id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.kind.value.lower(),
        )
        for group in context.groups.look().groups()
        if not states or group.state_name.lower() in states
        if not types or group.kind.value.lower() in types
    ]
    return ListGroupsResponse(groups=listed)
