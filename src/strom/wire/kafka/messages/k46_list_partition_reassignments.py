"""ListPartitionReassignments (46): the reassignments in progress (KIP-455)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class ListPartitionReassignmentsTopics(Struct):
    name: str = fields.string()
    partition_indexes: list[int] = fields.array(fields.INT32)


class ListPartitionReassignmentsRequest(Request, api_key=46, versions="0", flexible="0+"):
    timeout_ms: int = fields.int32(default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = fields.array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )
    """None for all topics."""


class OngoingPartitionReassignment(Struct):
    partition_index: int = fields.int32()
    replicas: list[int] = fields.array(fields.INT32)
    adding_replicas: list[int] = fields.array(fields.INT32)
    removing_replicas: list[int] = fields.array(fields.INT32)


class OngoingTopicReassignment(Struct):
    name: str = fields.string()
    partitions: list[OngoingPartitionReassignment] = fields.array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Response, api_key=46, versions="0", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")
    topics: list[OngoingTopicReassignment] = fields.array(OngoingTopicReassignment)
