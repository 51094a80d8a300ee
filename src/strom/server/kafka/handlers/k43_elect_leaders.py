"""ElectLeaders, api key 43: elect the leaders of partitions again.

The only replica leads already, or is offline. As in Kafka, the response to a request for all partitions
leaves out those that need no election.
"""

from strom.broker.partition import HostedTopic
from strom.model.errors import ErrorCode
from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
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
def elect_leaders(request: ElectLeadersRequest, context: Context) -> Steps[ElectLeadersResponse]:
    kind = request.election_type
    is_known = kind in _NOT_AVAILABLE
    response = ElectLeadersResponse()
    message = None
    if not is_known:
        response.error_code = ErrorCode.INVALID_REQUEST
        message = f"Election type {kind} is unknown: use 0 (preferred) or 1 (unclean)."
    elif request.topic_partitions is None:
        for hosted in context.broker.topics():
            result = ReplicaElectionResult(topic=hosted.topic.name)
            result.partition_result = yield from _needed(hosted, kind)
            response.replica_election_results.append(result)
    for topic in request.topic_partitions or ():
        result = ReplicaElectionResult(topic=topic.topic)
        response.replica_election_results.append(result)
        hosted_topic = context.broker.find_topic(topic.topic)
        for index in topic.partitions:
            yield None
            code = _elect(hosted_topic, index, kind) if is_known else ErrorCode.INVALID_REQUEST
            result.partition_result.append(_result(index, code, message))
    return response


def _elect(hosted: HostedTopic | None, index: int, kind: int) -> ErrorCode:
    if hosted is None or not 0 <= index < len(hosted.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if hosted.partitions[index].log.quarantined:
        return _NOT_AVAILABLE[kind]
    return ErrorCode.ELECTION_NOT_NEEDED


def _needed(hosted: HostedTopic, kind: int) -> Steps[list[PartitionResult]]:
    results = []
    for index in range(len(hosted.partitions)):
        yield None
        code = _elect(hosted, index, kind)
        if code is not ErrorCode.ELECTION_NOT_NEEDED:
            results.append(_result(index, code))
    return results


def _result(index: int, code: ErrorCode, message: str | None = None) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=message or code.text)
