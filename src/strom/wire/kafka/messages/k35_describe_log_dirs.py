"""DescribeLogDirs (35): data directories and the partitions in them, with their sizes."""

from strom.wire.kafka.fields import (
    array,
    boolean,
    int16,
    int32,
    int32_array,
    int64,
    string,
)
from strom.wire.kafka.schema import Request, Response, Struct


class DescribableLogDirTopic(Struct):
    """Partitions of one topic to look for."""

    topic: str = string()
    partitions: list[int] = int32_array()


class DescribeLogDirsRequest(Request, api_key=35, versions="1-5", flexible="2+"):
    """Describe the directories, for these topics or for all."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")
    """None for all topics."""


class DescribeLogDirsPartition(Struct):
    """One partition in a directory."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    """How far the log is behind the high watermark, or behind the log it is to replace."""
    is_future_key: bool = boolean()
    """Whether it is being moved here from another directory."""


class DescribeLogDirsTopic(Struct):
    """The partitions of one topic in a directory."""

    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Struct):
    """One directory and what lies in it."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", ignorable=True)


class DescribeLogDirsResponse(Response, api_key=35, versions="1-5", flexible="2+"):
    """The data directories of the broker."""

    throttle_time_ms: int = int32()
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
