"""DeleteTopics (20)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class DeleteTopicState(Struct):
    """A topic by name or by id."""

    name: str | None = fields.string(nullable="0+", default=None)
    topic_id: Uuid = fields.uuid()


class DeleteTopicsRequest(Request, api_key=20, versions="1-6", flexible="4+"):
    """The topics to delete; names only before version 6 (KIP-516)."""

    topics: list[DeleteTopicState] = fields.array(DeleteTopicState, "6+")
    topic_names: list[str] = fields.array(fields.STRING, "0-5", ignorable=True)
    timeout_ms: int = fields.int32()


class DeletableTopicResult(Struct):
    name: str | None = fields.string(nullable="6+")
    topic_id: Uuid = fields.uuid("6+", ignorable=True)
    error_code: int = fields.int16()
    error_message: str | None = fields.string("5+", nullable="0+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, api_key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = fields.int32()
    responses: list[DeletableTopicResult] = fields.array(DeletableTopicResult)
