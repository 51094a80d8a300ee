"""ListOffsets (2): offsets by timestamp, and the start and end of partitions."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class ListOffsetsPartition(Struct):
    partition_index: int = fields.int32()
    current_leader_epoch: int = fields.int32("4+", default=-1, ignorable=True)
    timestamp: int = fields.int64()
    """In ms; -1: latest; -2: earliest; -3: largest timestamp (KIP-734); -4, -5: tiered storage."""


class ListOffsetsTopic(Struct):
    name: str = fields.string()
    partitions: list[ListOffsetsPartition] = fields.array(ListOffsetsPartition)


class ListOffsetsRequest(Request, api_key=2, versions="1-11", flexible="6+"):
    replica_id: int = fields.int32()
    """The requesting follower, -1 for consumers."""
    isolation_level: int = fields.int8("2+")
    """0: read_uncommitted; 1: read_committed, where the latest offset is the last stable offset."""
    topics: list[ListOffsetsTopic] = fields.array(ListOffsetsTopic)
    timeout_ms: int = fields.int32("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """The first record at or after the timestamp, as offset and timestamp."""

    partition_index: int = fields.int32()
    error_code: int = fields.int16()
    timestamp: int = fields.int64(default=-1)
    offset: int = fields.int64(default=-1)
    leader_epoch: int = fields.int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = fields.string()
    partitions: list[ListOffsetsPartitionResponse] = fields.array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response, api_key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = fields.int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = fields.array(ListOffsetsTopicResponse)
