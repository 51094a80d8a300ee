"""TxnOffsetCommit (28): commit the offsets of a group as part of a transaction."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = fields.int32()
    committed_offset: int = fields.int64()
    committed_leader_epoch: int = fields.int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = fields.string(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = fields.string()
    partitions: list[TxnOffsetCommitRequestPartition] = fields.array(
        TxnOffsetCommitRequestPartition
    )


class TxnOffsetCommitRequest(Request, api_key=28, versions="0-5", flexible="3+"):
    """Offsets that become visible when the transaction commits."""

    transactional_id: str = fields.string()
    group_id: str = fields.string()
    producer_id: int = fields.int64()
    producer_epoch: int = fields.int16()
    generation_id: int = fields.int32("3+", default=-1)
    member_id: str = fields.string("3+")
    group_instance_id: str | None = fields.string("3+", nullable="0+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = fields.array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()


class TxnOffsetCommitResponseTopic(Struct):
    name: str = fields.string()
    partitions: list[TxnOffsetCommitResponsePartition] = fields.array(
        TxnOffsetCommitResponsePartition
    )


class TxnOffsetCommitResponse(Response, api_key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: int = fields.int32()
    topics: list[TxnOffsetCommitResponseTopic] = fields.array(TxnOffsetCommitResponseTopic)
