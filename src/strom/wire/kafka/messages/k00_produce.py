"""Produce (0): append record batches to partitions."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class PartitionProduceData(Struct):
    index: int = fields.int32()
    records: memoryview | None = fields.record_batches()


class TopicProduceData(Struct):
    name: str = fields.string("0-12", ignorable=True)
    topic_id: Uuid = fields.uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = fields.array(PartitionProduceData)


class ProduceRequest(Request, api_key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = fields.string(nullable="0+", default=None)
    acks: int = fields.int16()
    """0: no response; 1: the leader has written it; -1: all in-sync replicas have written it."""
    timeout_ms: int = fields.int32()
    topic_data: list[TopicProduceData] = fields.array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    """A record because of which its whole batch was rejected (KIP-467)."""

    batch_index: int = fields.int32()
    batch_index_error_message: str | None = fields.string(nullable="0+", default=None)


class LeaderIdAndEpoch(Struct):
    """The current leader, with NOT_LEADER_OR_FOLLOWER (KIP-951)."""

    leader_id: int = fields.int32(default=-1)
    leader_epoch: int = fields.int32(default=-1)


class PartitionProduceResponse(Struct):
    index: int = fields.int32()
    error_code: int = fields.int16()
    base_offset: int = fields.int64()
    log_append_time_ms: int = fields.int64(default=-1)
    """-1 unless the topic uses LogAppendTime."""
    log_start_offset: int = fields.int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = fields.array(
        BatchIndexAndErrorMessage, "8+", ignorable=True
    )
    error_message: str | None = fields.string("8+", nullable="0+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = fields.optional_struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = fields.string("0-12", ignorable=True)
    topic_id: Uuid = fields.uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = fields.array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    """The address of a leader named in the response (KIP-951)."""

    node_id: int = fields.int32()
    host: str = fields.string()
    port: int = fields.int32()
    rack: str | None = fields.string(nullable="0+", default=None)


class ProduceResponse(Response, api_key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = fields.array(TopicProduceResponse)
    throttle_time_ms: int = fields.int32()
    node_endpoints: list[NodeEndpoint] = fields.array(NodeEndpoint, "10+", tag=0)
