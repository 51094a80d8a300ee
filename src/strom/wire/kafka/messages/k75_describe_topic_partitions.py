"""DescribeTopicPartitions (75): topics in pages, so that a response stays small (KIP-966)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class TopicRequest(Struct):
    name: str = fields.string()


class Cursor(Struct):
    """Where a page begins (KIP-966)."""

    topic_name: str = fields.string()
    partition_index: int = fields.int32()


class DescribeTopicPartitionsRequest(Request, api_key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = fields.array(TopicRequest)
    response_partition_limit: int = fields.int32(default=2000)
    """The most partitions in one response."""
    cursor: Cursor | None = fields.optional_struct(Cursor, nullable="0+")


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = fields.int16()
    partition_index: int = fields.int32()
    leader_id: int = fields.int32()
    leader_epoch: int = fields.int32(default=-1)
    replica_nodes: list[int] = fields.array(fields.INT32)
    isr_nodes: list[int] = fields.array(fields.INT32)
    eligible_leader_replicas: list[int] | None = fields.array(
        fields.INT32, nullable="0+", default=None
    )
    last_known_elr: list[int] | None = fields.array(fields.INT32, nullable="0+", default=None)
    offline_replicas: list[int] = fields.array(fields.INT32)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = fields.int16()
    name: str | None = fields.string(nullable="0+")
    topic_id: Uuid = fields.uuid()
    is_internal: bool = fields.boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = fields.array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = fields.int32(default=fields.INT32_MIN)


class DescribeTopicPartitionsResponse(Response, api_key=75, versions="0", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = fields.array(
        DescribeTopicPartitionsResponseTopic
    )
    next_cursor: Cursor | None = fields.optional_struct(Cursor, nullable="0+")
    """Where the next page begins, None after the last."""
