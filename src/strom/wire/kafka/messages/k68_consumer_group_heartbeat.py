"""ConsumerGroupHeartbeat (68): join, stay in and leave a consumer group."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class TopicPartitions(Struct):
    topic_id: Uuid = fields.uuid()
    partitions: list[int] = fields.array(fields.INT32)


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions="0-1", flexible="0+"):
    """Subscription and owned partitions of the member; unchanged fields may be omitted (KIP-848)."""

    group_id: str = fields.string()
    member_id: str = fields.string()
    member_epoch: int = fields.int32()
    """0: join; -1: leave; -2: leave temporarily, as a static member."""
    instance_id: str | None = fields.string(nullable="0+", default=None)
    rack_id: str | None = fields.string(nullable="0+", default=None)
    rebalance_timeout_ms: int = fields.int32(default=-1)
    subscribed_topic_names: list[str] | None = fields.array(
        fields.STRING, nullable="0+", default=None
    )
    subscribed_topic_regex: str | None = fields.string("1+", nullable="0+", default=None)
    server_assignor: str | None = fields.string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = fields.array(
        TopicPartitions, nullable="0+", default=None
    )
    """The partitions that the member owns; None if unchanged."""


class Assignment(Struct):
    """The partitions assigned to the member."""

    topic_partitions: list[TopicPartitions] = fields.array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions="0-1", flexible="0+"):
    """The assignment of the member, if it has changed."""

    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    member_id: str | None = fields.string(nullable="0+", default=None)
    member_epoch: int = fields.int32()
    heartbeat_interval_ms: int = fields.int32()
    assignment: Assignment | None = fields.optional_struct(Assignment, nullable="0+")
    """None if unchanged."""
