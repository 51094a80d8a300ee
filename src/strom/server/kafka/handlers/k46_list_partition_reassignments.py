"""ListPartitionReassignments, api key 46: none, because a reassignment is complete at once."""

from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
from strom.wire.kafka.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@handler(ListPartitionReassignmentsRequest, Needs(Operation.DESCRIBE, Resource.CLUSTER))
def list_partition_reassignments(
    _request: ListPartitionReassignmentsRequest, _context: Context
) -> Outcome:
    return ListPartitionReassignmentsResponse(error_message=None)
