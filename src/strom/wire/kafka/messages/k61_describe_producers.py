"""DescribeProducers (61): who has written to partitions of late."""

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
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = int32_array()


class DescribeProducersRequest(Request, api_key=61, versions="0", flexible="0+"):
    """Describe the producers of these partitions."""

    topics: list[TopicRequest] = array(TopicRequest)


class ProducerState(Struct):
    """One producer and what it wrote last."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)
    """-1 for no open transaction."""


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    """The producers of one topic."""

    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(Response, api_key=61, versions="0", flexible="0+"):
    """The producers."""

    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
