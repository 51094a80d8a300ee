"""DescribeQuorum, api key 55: the quorum of the metadata log, whose only voter is this broker.

As in Kafka, the request must name that partition and no other, or each one in it is unknown.
"""

from strom.broker.metadata_log import METADATA_PARTITION
from strom.model.errors import ErrorCode
from strom.model.steps import Steps
from strom.model.topics import TopicPartition
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

LISTENER_NAME = "PLAINTEXT"
FIRST_VERSION_WITH_NODES = 2


@handler(DescribeQuorumRequest, Needs(Operation.DESCRIBE, Resource.CLUSTER))
def describe_quorum(
    request: DescribeQuorumRequest, context: Context
) -> Steps[DescribeQuorumResponse]:
    asked = [
        TopicPartition(topic.topic_name, one.partition_index)
        for topic in request.topics
        for one in topic.partitions
    ]
    if asked != [METADATA_PARTITION]:
        return (yield from _refused(request))
    response = DescribeQuorumResponse(
        topics=[TopicData(topic_name=METADATA_PARTITION.topic, partitions=[_describe(context)])]
    )
    if context.version >= FIRST_VERSION_WITH_NODES:
        endpoint = context.services.endpoint
        listener = Listener(name=LISTENER_NAME, host=endpoint.host, port=endpoint.port)
        response.nodes = [Node(node_id=endpoint.node_id, listeners=[listener])]
    return response


def _refused(request: DescribeQuorumRequest) -> Steps[DescribeQuorumResponse]:
    response = DescribeQuorumResponse()
    for topic in request.topics:
        answer = TopicData(topic_name=topic.topic_name)
        response.topics.append(answer)
        for one in topic.partitions:
            answer.partitions.append(_unknown(one.partition_index))
            yield None
    return response


def _describe(context: Context) -> PartitionData:
    node, now_ms = context.services.endpoint.node_id, context.broker.clock.now_ms()
    log = context.broker.metadata_log.partition.log
    return PartitionData(
        partition_index=METADATA_PARTITION.partition,
        leader_id=node,
        leader_epoch=context.broker.metadata.leader_epoch,
        high_watermark=log.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=node,
                log_end_offset=log.end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
        ],
    )


def _unknown(index: int) -> PartitionData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return PartitionData(partition_index=index, error_code=code, error_message=code.text)
