"""DescribeProducers (61): the active producers of partitions."""

from strom.wire.kafka.fields import (
    array,
    int16,
    int32,
    int32_array,
    int64,
    string,
)
from strom.wire.kafka.schema import Request, Response, Struct


class TopicRequest(Struct):
    name: str = string()
    partition_indexes: list[int] = int32_array()


class DescribeProducersRequest(Request, api_key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array(TopicRequest)


class ProducerState(Struct):
    """One active producer and its last append (KIP-664)."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)
    """-1 if it has no open transaction."""


class PartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(Response, api_key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
