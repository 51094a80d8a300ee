"""CreatePartitions (37): give topics more partitions."""

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
    """The brokers chosen for one new partition."""

    broker_ids: list[int] = int32_array()


class CreatePartitionsTopic(Struct):
    """How many partitions a topic shall have."""

    name: str = string()
    count: int = int32()
    """The new total."""
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )
    """None to let the broker choose."""


class CreatePartitionsRequest(Request, api_key=37, versions="0-3", flexible="2+"):
    """Give these topics more partitions."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    """What became of one topic."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreatePartitionsResponse(Response, api_key=37, versions="0-3", flexible="2+"):
    """What became of the topics."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
