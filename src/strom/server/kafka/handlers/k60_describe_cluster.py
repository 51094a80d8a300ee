"""DescribeCluster, api key 60: the brokers and the cluster's id."""

from strom.model.errors import ErrorCode
from strom.server.kafka.api import (
    CLUSTER_OPERATIONS,
    Context,
    Needs,
    Operation,
    Outcome,
    Resource,
    handler,
)
from strom.wire.kafka.messages.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


@handler(DescribeClusterRequest, Needs(Operation.DESCRIBE, Resource.CLUSTER))
def describe_cluster(request: DescribeClusterRequest, context: Context) -> Outcome:
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            ),
            error_message="This listener serves brokers only; use endpoint type 1.",
            endpoint_type=request.endpoint_type,
        )
    endpoint = context.services.endpoint
    response = DescribeClusterResponse(
        cluster_id=context.broker.directory.cluster_id,
        controller_id=endpoint.node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=endpoint.node_id, host=endpoint.host, port=endpoint.port
            )
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
