"""ShareGroupHeartbeat (76): join, stay in and leave a share group."""

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
    """Subscription of the member; unchanged fields may be omitted (KIP-932)."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    """0: join; -1: leave."""
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = string_array(nullable="0+", default=None)


class TopicPartitions(Struct):
    topic_id: Uuid = uuid()
    partitions: list[int] = int32_array()


class Assignment(Struct):
    """The partitions to fetch from; other members may have them too."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupHeartbeatResponse(Response, api_key=76, versions="1", flexible="0+"):
    """The assignment of the member, if it has changed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = optional_struct(Assignment, nullable="0+")
    """None if unchanged."""
