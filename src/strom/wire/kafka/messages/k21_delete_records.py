"""DeleteRecords (21): give up all records before an offset."""

from strom.wire.kafka.fields import (
    array,
    int16,
    int32,
    int64,
    string,
)
from strom.wire.kafka.schema import Request, Response, Struct


class DeleteRecordsPartition(Struct):
    """The new start of one partition."""

    partition_index: int = int32()
    offset: int = int64()
    """The first offset to keep; -1 for the high watermark."""


class DeleteRecordsTopic(Struct):
    """New starts in one topic."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


class DeleteRecordsRequest(Request, api_key=21, versions="0-2", flexible="2+"):
    """Move the starts of these partitions forward."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsPartitionResult(Struct):
    """Where one partition starts now."""

    partition_index: int = int32()
    low_watermark: int = int64()
    """The new first offset."""
    error_code: int = int16()


class DeleteRecordsTopicResult(Struct):
    """Where the partitions of one topic start now."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(Response, api_key=21, versions="0-2", flexible="2+"):
    """Where the partitions start now."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
