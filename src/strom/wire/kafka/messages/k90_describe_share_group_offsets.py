"""DescribeShareGroupOffsets (90): the start offsets of share groups."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = fields.string()
    partitions: list[int] = fields.array(fields.INT32)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """One group, with all of its partitions (None) or some."""

    group_id: str = fields.string()
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = fields.array(
        DescribeShareGroupOffsetsRequestTopic, nullable="0+"
    )


class DescribeShareGroupOffsetsRequest(Request, api_key=90, versions="0-1", flexible="0+"):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = fields.array(
        DescribeShareGroupOffsetsRequestGroup
    )


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = fields.int32()
    start_offset: int = fields.int64()
    """All records before it are acknowledged or archived; -1 if the group has no state here yet."""
    leader_epoch: int = fields.int32()
    lag: int = fields.int64("1+", default=-1, ignorable=True)
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = fields.string()
    topic_id: Uuid = fields.uuid()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = fields.array(
        DescribeShareGroupOffsetsResponsePartition
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = fields.string()
    topics: list[DescribeShareGroupOffsetsResponseTopic] = fields.array(
        DescribeShareGroupOffsetsResponseTopic
    )
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Response, api_key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = fields.array(
        DescribeShareGroupOffsetsResponseGroup
    )
