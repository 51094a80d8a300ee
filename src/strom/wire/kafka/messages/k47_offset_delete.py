"""OffsetDelete (47): delete committed offsets of a group."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = fields.int32()


class OffsetDeleteRequestTopic(Struct):
    name: str = fields.string()
    partitions: list[OffsetDeleteRequestPartition] = fields.array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Request, api_key=47, versions="0"):
    group_id: str = fields.string()
    topics: list[OffsetDeleteRequestTopic] = fields.array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()


class OffsetDeleteResponseTopic(Struct):
    name: str = fields.string()
    partitions: list[OffsetDeleteResponsePartition] = fields.array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Response, api_key=47, versions="0"):
    error_code: int = fields.int16()
    throttle_time_ms: int = fields.int32()
    topics: list[OffsetDeleteResponseTopic] = fields.array(OffsetDeleteResponseTopic)
