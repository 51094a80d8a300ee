"""OffsetForLeaderEpoch (23): where a leader epoch ended, to find out what diverged."""

from strom.wire.kafka.fields import (
    array,
    int16,
    int32,
    int64,
    string,
)
from strom.wire.kafka.schema import Request, Response, Struct


class OffsetForLeaderPartition(Struct):
    """The epoch to look up in one partition."""

    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Struct):
    """Epochs to look up in one topic."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Request, api_key=23, versions="2-4", flexible="4+"):
    """Look up the ends of these epochs."""

    replica_id: int = int32("3+", default=-2, ignorable=True)
    """The follower that asks, -1 for consumers."""
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class EpochEndOffset(Struct):
    """Where the epoch ended in one partition."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Struct):
    """Where the epochs ended in one topic."""

    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


class OffsetForLeaderEpochResponse(Response, api_key=23, versions="2-4", flexible="4+"):
    """Where the epochs ended."""

    throttle_time_ms: int = int32()
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
