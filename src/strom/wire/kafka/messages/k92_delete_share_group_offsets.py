"""DeleteShareGroupOffsets (92): delete the state of topics in an empty share group."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = fields.string()


class DeleteShareGroupOffsetsRequest(Request, api_key=92, versions="0", flexible="0+"):
    group_id: str = fields.string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = fields.array(
        DeleteShareGroupOffsetsRequestTopic
    )


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = fields.string()
    topic_id: Uuid = fields.uuid()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Response, api_key=92, versions="0", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = fields.array(
        DeleteShareGroupOffsetsResponseTopic
    )
