"""DeleteTopics (20)."""

from strom.wire.kafka.fields import (
    array,
    int16,
    int32,
    string,
    string_array,
    uuid,
)
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class DeleteTopicState(Struct):
    """A topic by name or by id."""

    name: str | None = string(nullable="0+", default=None)
    topic_id: Uuid = uuid()


class DeleteTopicsRequest(Request, api_key=20, versions="1-6", flexible="4+"):
    """The topics to delete; names only before version 6 (KIP-516)."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = string_array("0-5", ignorable=True)
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: Uuid = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="0+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, api_key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
