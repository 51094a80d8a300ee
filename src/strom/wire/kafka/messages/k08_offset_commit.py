"""OffsetCommit (8): commit the offsets of a group."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int = fields.int32()
    committed_offset: int = fields.int64()
    committed_leader_epoch: int = fields.int32("6+", default=-1, ignorable=True)
    committed_metadata: str | None = fields.string(nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = fields.string("0-9", ignorable=True)
    topic_id: Uuid = fields.uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = fields.array(OffsetCommitRequestPartition)


class OffsetCommitRequest(Request, api_key=8, versions="2-10", flexible="8+"):
    group_id: str = fields.string()
    generation_id_or_member_epoch: int = fields.int32(default=-1)
    member_id: str = fields.string()
    group_instance_id: str | None = fields.string("7+", nullable="0+", default=None)
    retention_time_ms: int = fields.int64("0-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = fields.array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()


class OffsetCommitResponseTopic(Struct):
    name: str = fields.string("0-9", ignorable=True)
    topic_id: Uuid = fields.uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = fields.array(OffsetCommitResponsePartition)


class OffsetCommitResponse(Response, api_key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: int = fields.int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = fields.array(OffsetCommitResponseTopic)
