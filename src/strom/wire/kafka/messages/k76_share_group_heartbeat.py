"""ShareGroupHeartbeat (76): join, stay in and leave a share group, all in one."""

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


class ShareGroupHeartbeatRequest(Request, api_key=76, versions="1", flexible="0+"):
    """What the member wants; what has not changed may be left out."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    """0 to join, -1 to leave."""
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = string_array(nullable="0+", default=None)


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    partitions: list[int] = int32_array()


class Assignment(Struct):
    """The partitions that a member may fetch from, others perhaps as well."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupHeartbeatResponse(Response, api_key=76, versions="1", flexible="0+"):
    """What the member may fetch from, if that has changed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = optional_struct(Assignment, nullable="0+")
    """None if it has not changed."""
