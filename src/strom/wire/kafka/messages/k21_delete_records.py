"""DeleteRecords (21): delete all records before an offset."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class DeleteRecordsPartition(Struct):
    partition_index: int = fields.int32()
    offset: int = fields.int64()
    """The first offset to keep; -1 for the high watermark."""


class DeleteRecordsTopic(Struct):
    name: str = fields.string()
    partitions: list[DeleteRecordsPartition] = fields.array(DeleteRecordsPartition)


class DeleteRecordsRequest(Request, api_key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = fields.array(DeleteRecordsTopic)
    timeout_ms: int = fields.int32()


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = fields.int32()
    low_watermark: int = fields.int64()
    """The new first offset."""
    error_code: int = fields.int16()


class DeleteRecordsTopicResult(Struct):
    name: str = fields.string()
    partitions: list[DeleteRecordsPartitionResult] = fields.array(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(Response, api_key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = fields.int32()
    topics: list[DeleteRecordsTopicResult] = fields.array(DeleteRecordsTopicResult)
