"""DescribeProducers (61): the active producers of partitions."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class TopicRequest(Struct):
    name: str = fields.string()
    partition_indexes: list[int] = fields.array(fields.INT32)


class DescribeProducersRequest(Request, api_key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest] = fields.array(TopicRequest)


class ProducerState(Struct):
    """One active producer and its last append (KIP-664)."""

    producer_id: int = fields.int64()
    producer_epoch: int = fields.int32()
    last_sequence: int = fields.int32(default=-1)
    last_timestamp: int = fields.int64(default=-1)
    coordinator_epoch: int = fields.int32()
    current_txn_start_offset: int = fields.int64(default=-1)
    """-1 if it has no open transaction."""


class PartitionResponse(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    active_producers: list[ProducerState] = fields.array(ProducerState)


class TopicResponse(Struct):
    name: str = fields.string()
    partitions: list[PartitionResponse] = fields.array(PartitionResponse)


class DescribeProducersResponse(Response, api_key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    topics: list[TopicResponse] = fields.array(TopicResponse)
