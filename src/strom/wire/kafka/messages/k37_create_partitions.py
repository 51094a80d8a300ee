"""CreatePartitions (37): add partitions to topics."""

from strom.wire.kafka.fields import (
    array,
    boolean,
    int16,
    int32,
    int32_array,
    string,
)
from strom.wire.kafka.schema import Request, Response, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = int32_array()


class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()
    """The new total."""
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )
    """None: the broker assigns replicas."""


class CreatePartitionsRequest(Request, api_key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreatePartitionsResponse(Response, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
