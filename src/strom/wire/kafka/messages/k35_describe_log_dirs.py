"""DescribeLogDirs (35): log directories and the sizes of the partitions in them."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class DescribableLogDirTopic(Struct):
    topic: str = fields.string()
    partitions: list[int] = fields.array(fields.INT32)


class DescribeLogDirsRequest(Request, api_key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = fields.array(
        DescribableLogDirTopic, nullable="0+"
    )
    """None for all topics."""


class DescribeLogDirsPartition(Struct):
    partition_index: int = fields.int32()
    partition_size: int = fields.int64()
    offset_lag: int = fields.int64()
    """Lag behind the high watermark, or, for a future log, behind the current log."""
    is_future_key: bool = fields.boolean()
    """Whether it is the future log of a move between directories (KIP-113)."""


class DescribeLogDirsTopic(Struct):
    name: str = fields.string()
    partitions: list[DescribeLogDirsPartition] = fields.array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Struct):
    error_code: int = fields.int16()
    log_dir: str = fields.string()
    topics: list[DescribeLogDirsTopic] = fields.array(DescribeLogDirsTopic)
    total_bytes: int = fields.int64("4+", default=-1, ignorable=True)
    usable_bytes: int = fields.int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = fields.boolean("5+", ignorable=True)


class DescribeLogDirsResponse(Response, api_key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = fields.array(DescribeLogDirsResult)
