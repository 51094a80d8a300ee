"""AlterShareGroupOffsets (91): reset the start offsets of an empty share group."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = fields.int32()
    start_offset: int = fields.int64()


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = fields.string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = fields.array(
        AlterShareGroupOffsetsRequestPartition
    )


class AlterShareGroupOffsetsRequest(Request, api_key=91, versions="0", flexible="0+"):
    group_id: str = fields.string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = fields.array(
        AlterShareGroupOffsetsRequestTopic
    )


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = fields.string()
    topic_id: Uuid = fields.uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = fields.array(
        AlterShareGroupOffsetsResponsePartition
    )


class AlterShareGroupOffsetsResponse(Response, api_key=91, versions="0", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = fields.array(
        AlterShareGroupOffsetsResponseTopic
    )
