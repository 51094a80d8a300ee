"""ConsumerGroupHeartbeat (68): join, stay in and leave a consumer group, all in one."""

from strom.wire.kafka.fields import (
    array,
    int16,
    int32,
    int32_array,
    optional_struct,
    string,
    string_array,
    uuid,
)
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    partitions: list[int] = int32_array()


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions="0-1", flexible="0+"):
    """What the member wants and holds; what has not changed may be left out."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    """0 to join, -1 to leave, -2 to leave for a while as a static member."""
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = string_array(nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="0+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable="0+", default=None
    )
    """What the member holds; None if that has not changed."""


class Assignment(Struct):
    """The partitions that a member shall hold."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions="0-1", flexible="0+"):
    """What the member shall hold, if that has changed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = optional_struct(Assignment, nullable="0+")
    """None if it has not changed."""
