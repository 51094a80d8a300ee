"""AlterPartitionReassignments (45): move partitions to other brokers (KIP-455)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class ReassignablePartition(Struct):
    partition_index: int = fields.int32()
    replicas: list[int] | None = fields.array(fields.INT32, nullable="0+", default=None)
    """The brokers to move to; None cancels a reassignment in progress."""


class ReassignableTopic(Struct):
    name: str = fields.string()
    partitions: list[ReassignablePartition] = fields.array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Request, api_key=45, versions="0-1", flexible="0+"):
    timeout_ms: int = fields.int32(default=60_000)
    allow_replication_factor_change: bool = fields.boolean("1+", default=True)
    topics: list[ReassignableTopic] = fields.array(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")


class ReassignableTopicResponse(Struct):
    name: str = fields.string()
    partitions: list[ReassignablePartitionResponse] = fields.array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Response, api_key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    allow_replication_factor_change: bool = fields.boolean("1+", default=True, ignorable=True)
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")
    responses: list[ReassignableTopicResponse] = fields.array(ReassignableTopicResponse)
