"""AlterReplicaLogDirs (34): move partitions to another directory of the same broker (KIP-113)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class AlterReplicaLogDirTopic(Struct):
    name: str = fields.string()
    partitions: list[int] = fields.array(fields.INT32)


class AlterReplicaLogDir(Struct):
    path: str = fields.string()
    topics: list[AlterReplicaLogDirTopic] = fields.array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Request, api_key=34, versions="1-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = fields.array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = fields.string()
    partitions: list[AlterReplicaLogDirPartitionResult] = fields.array(
        AlterReplicaLogDirPartitionResult
    )


class AlterReplicaLogDirsResponse(Response, api_key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: int = fields.int32()
    results: list[AlterReplicaLogDirTopicResult] = fields.array(AlterReplicaLogDirTopicResult)
