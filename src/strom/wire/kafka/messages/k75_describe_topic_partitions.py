"""DescribeTopicPartitions (75): topics in pages, so that a response stays small (KIP-966)."""

from strom.wire.kafka.fields import (
    INT32_MIN,
    array,
    boolean,
    int16,
    int32,
    int32_array,
    optional_struct,
    string,
    uuid,
)
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class TopicRequest(Struct):
    name: str = string()


class Cursor(Struct):
    """Where a page begins (KIP-966)."""

    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Request, api_key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    """The most partitions in one response."""
    cursor: Cursor | None = optional_struct(Cursor, nullable="0+")


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = int32_array()
    isr_nodes: list[int] = int32_array()
    eligible_leader_replicas: list[int] | None = int32_array(nullable="0+", default=None)
    last_known_elr: list[int] | None = int32_array(nullable="0+", default=None)
    offline_replicas: list[int] = int32_array()


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: Uuid = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=INT32_MIN)


class DescribeTopicPartitionsResponse(Response, api_key=75, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = optional_struct(Cursor, nullable="0+")
    """Where the next page begins, None after the last."""
