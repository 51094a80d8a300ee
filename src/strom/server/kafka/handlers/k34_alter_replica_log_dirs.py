"""AlterReplicaLogDirs, api key 34: move partitions between data directories.

There is one data directory, so a partition is in it already, or has no place to move to.
"""

from strom.model.errors import ErrorCode
from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


@handler(AlterReplicaLogDirsRequest, Needs(Operation.ALTER, Resource.CLUSTER))
def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: Context
) -> Steps[AlterReplicaLogDirsResponse]:
    # A partition has one result: that of the last directory named for it, as in Kafka.
    codes: dict[str, dict[int, ErrorCode]] = {}
    for target in request.dirs:
        for topic in target.topics:
            results = codes.setdefault(topic.name, {})
            for index in topic.partitions:
                results[index] = _move(target.path, topic.name, index, context)
                yield None
    response = AlterReplicaLogDirsResponse()
    for name, results in codes.items():
        answer = AlterReplicaLogDirTopicResult(topic_name=name)
        response.results.append(answer)
        for index, code in results.items():
            yield None
            answer.partitions.append(
                AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
            )
    return response


def _move(path: str, topic: str, index: int, context: Context) -> ErrorCode:
    directory = context.broker.directory
    if path != directory.path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.offline is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    hosted = context.broker.find_topic(topic)
    if hosted is None or not 0 <= index < len(hosted.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
