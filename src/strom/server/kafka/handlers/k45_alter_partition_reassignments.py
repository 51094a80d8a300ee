"""AlterPartitionReassignments, api key 45: move partitions to other brokers.

This broker is the only one: a partition can be assigned to the broker that already has it, which changes
nothing and is complete at once.
"""

from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


@handler(AlterPartitionReassignmentsRequest, Needs(Operation.ALTER, Resource.CLUSTER))
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> Steps[AlterPartitionReassignmentsResponse]:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
    )
    for topic in request.topics:
        answer = ReassignableTopicResponse(name=topic.name)
        response.responses.append(answer)
        for one in topic.partitions:
            answer.partitions.append(_reassign(topic.name, one, context))
            yield None
    return response


def _reassign(
    topic: str, partition: ReassignablePartition, context: Context
) -> ReassignablePartitionResponse:
    index = partition.partition_index
    try:
        context.broker.topic(topic).partition(index)
        if partition.replicas is None:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        node = context.services.endpoint.node_id
        if partition.replicas != [node]:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Replicas {partition.replicas} are impossible: only broker {node} is registered.",
            )
    except ApiError as error:
        return ReassignablePartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message
        )
    return ReassignablePartitionResponse(partition_index=index, error_message=None)
