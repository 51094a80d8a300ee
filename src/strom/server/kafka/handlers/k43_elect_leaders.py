"""ElectLeaders, api key 43: elect the leaders of partitions again.

The only replica leads already, or is offline. As in Kafka, the response to a request for all partitions
leaves out those that need no election.
"""

from strom.broker.partition import HostedTopic
from strom.model.errors import ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
from strom.wire.kafka.messages.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED = 0
UNCLEAN = 1
_NOT_AVAILABLE = {
    PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


@handler(ElectLeadersRequest, Needs(Operation.ALTER, Resource.CLUSTER))
def elect_leaders(request: ElectLeadersRequest, context: Context) -> Outcome:
    kind = request.election_type
    if kind not in _NOT_AVAILABLE:
        message = f"Election type {kind} is unknown: use 0 (preferred) or 1 (unclean)."
        return ElectLeadersResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            replica_election_results=[
                ReplicaElectionResult(
                    topic=topic.topic,
                    partition_result=[
                        _result(index, ErrorCode.INVALID_REQUEST, message)
                        for index in topic.partitions
                    ],
                )
                for topic in request.topic_partitions or ()
            ],
        )
    if request.topic_partitions is None:
        return ElectLeadersResponse(
            replica_election_results=[
                ReplicaElectionResult(
                    topic=hosted.topic.name, partition_result=_needed(hosted, kind)
                )
                for hosted in context.broker.topics()
            ]
        )
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    _result(index, _elect(context.broker.find_topic(topic.topic), index, kind))
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions
        ]
    )


def _elect(hosted: HostedTopic | None, index: int, kind: int) -> ErrorCode:
    if hosted is None or not 0 <= index < len(hosted.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if hosted.partitions[index].log.quarantined:
        return _NOT_AVAILABLE[kind]
    return ErrorCode.ELECTION_NOT_NEEDED


def _needed(hosted: HostedTopic, kind: int) -> list[PartitionResult]:
    results = ((index, _elect(hosted, index, kind)) for index in range(len(hosted.partitions)))
    return [_result(*one) for one in results if one[1] is not ErrorCode.ELECTION_NOT_NEEDED]


def _result(index: int, code: ErrorCode, message: str | None = None) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=message or code.text)
