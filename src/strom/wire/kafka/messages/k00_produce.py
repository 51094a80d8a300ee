"""Produce (0): append record batches to partitions."""

from strom.wire.kafka.fields import (
    array,
    int16,
    int32,
    int64,
    optional_struct,
    record_batches,
    string,
    uuid,
)
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class PartitionProduceData(Struct):
    """Batches for one partition."""

    index: int = int32()
    records: memoryview | None = record_batches()


class TopicProduceData(Struct):
    """Batches for partitions of one topic."""

    name: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Request, api_key=0, versions="3-13", flexible="9+"):
    """Append these batches."""

    transactional_id: str | None = string(nullable="0+", default=None)
    acks: int = int16()
    """0 no answer, 1 the leader has it, -1 all in-sync replicas have it."""
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    """A record that made its whole batch fail."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+", default=None)


class LeaderIdAndEpoch(Struct):
    """The leader to turn to instead."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionProduceResponse(Struct):
    """Where the batches of one partition went, or why not."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    """-1 where records keep the time their producer gave them."""
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+", ignorable=True
    )
    error_message: str | None = string("8+", nullable="0+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = optional_struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    """What became of the batches of one topic."""

    name: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    """How to reach a leader named in the answer."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class ProduceResponse(Response, api_key=0, versions="3-13", flexible="9+"):
    """What became of the batches."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
