"""ListOffsets (2): the offset that belongs to a time, or to the start or end of a partition."""

from strom.wire.kafka.fields import (
    array,
    int8,
    int16,
    int32,
    int64,
    string,
)
from strom.wire.kafka.schema import Request, Response, Struct


class ListOffsetsPartition(Struct):
    """The time to look up in one partition."""

    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()
    """A time in ms; -1 latest, -2 earliest, -3 of the largest timestamp, -4, -5: tiered storage."""


class ListOffsetsTopic(Struct):
    """Times to look up in one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Request, api_key=2, versions="1-11", flexible="6+"):
    """Look up these times."""

    replica_id: int = int32()
    """The follower that asks, -1 for consumers."""
    isolation_level: int = int8("2+")
    """0 counts all records, 1 only committed ones."""
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """The first record at or after the time, as offset and timestamp."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """The offsets in one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response, api_key=2, versions="1-11", flexible="6+"):
    """The offsets found."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
