"""OffsetForLeaderEpoch (23): the end offset of a leader epoch, to detect truncation (KIP-320)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class OffsetForLeaderPartition(Struct):
    partition: int = fields.int32()
    current_leader_epoch: int = fields.int32(default=-1)
    leader_epoch: int = fields.int32()


class OffsetForLeaderTopic(Struct):
    topic: str = fields.string()
    partitions: list[OffsetForLeaderPartition] = fields.array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Request, api_key=23, versions="2-4", flexible="4+"):
    replica_id: int = fields.int32("3+", default=-2, ignorable=True)
    """The requesting follower, -1 for consumers."""
    topics: list[OffsetForLeaderTopic] = fields.array(OffsetForLeaderTopic)


class EpochEndOffset(Struct):
    error_code: int = fields.int16()
    partition: int = fields.int32()
    leader_epoch: int = fields.int32(default=-1)
    end_offset: int = fields.int64(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = fields.string()
    partitions: list[EpochEndOffset] = fields.array(EpochEndOffset)


class OffsetForLeaderEpochResponse(Response, api_key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int = fields.int32()
    topics: list[OffsetForLeaderTopicResult] = fields.array(OffsetForLeaderTopicResult)
