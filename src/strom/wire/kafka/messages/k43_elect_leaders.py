"""ElectLeaders (43): elect the leaders of partitions again (KIP-460)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class TopicPartitions(Struct):
    topic: str = fields.string()
    partitions: list[int] = fields.array(fields.INT32)


class ElectLeadersRequest(Request, api_key=43, versions="0-2", flexible="2+"):
    election_type: int = fields.int8("1+")
    """0: the preferred replica; 1: any live replica, even one that is not in sync."""
    topic_partitions: list[TopicPartitions] | None = fields.array(TopicPartitions, nullable="0+")
    """None for all partitions."""
    timeout_ms: int = fields.int32(default=60_000)


class PartitionResult(Struct):
    partition_id: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = fields.string()
    partition_result: list[PartitionResult] = fields.array(PartitionResult)


class ElectLeadersResponse(Response, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16("1+")
    replica_election_results: list[ReplicaElectionResult] = fields.array(ReplicaElectionResult)
