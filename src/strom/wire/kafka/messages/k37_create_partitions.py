"""CreatePartitions (37): add partitions to topics."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = fields.array(fields.INT32)


class CreatePartitionsTopic(Struct):
    name: str = fields.string()
    count: int = fields.int32()
    """The new total."""
    assignments: list[CreatePartitionsAssignment] | None = fields.array(
        CreatePartitionsAssignment, nullable="0+"
    )
    """None: the broker assigns replicas."""


class CreatePartitionsRequest(Request, api_key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = fields.array(CreatePartitionsTopic)
    timeout_ms: int = fields.int32()
    validate_only: bool = fields.boolean()


class CreatePartitionsTopicResult(Struct):
    name: str = fields.string()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)


class CreatePartitionsResponse(Response, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = fields.int32()
    results: list[CreatePartitionsTopicResult] = fields.array(CreatePartitionsTopicResult)
