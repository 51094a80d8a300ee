"""ConsumerGroupHeartbeat (68): join, stay in and leave a consumer group."""

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
    topic_id: Uuid = uuid()
    partitions: list[int] = int32_array()


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions="0-1", flexible="0+"):
    """Subscription and owned partitions of the member; unchanged fields may be omitted (KIP-848)."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    """0: join; -1: leave; -2: leave temporarily, as a static member."""
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = string_array(nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="0+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable="0+", default=None
    )
    """The partitions that the member owns; None if unchanged."""


class Assignment(Struct):
    """The partitions assigned to the member."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions="0-1", flexible="0+"):
    """The assignment of the member, if it has changed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = optional_struct(Assignment, nullable="0+")
    """None if unchanged."""
