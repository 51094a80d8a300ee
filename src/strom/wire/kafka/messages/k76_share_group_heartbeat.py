"""ShareGroupHeartbeat (76): join, stay in and leave a share group."""

from strom.wire.kafka import fields
from strom.wire.kafka.messages.k68_consumer_group_heartbeat import Assignment
from strom.wire.kafka.schema import Request, Response


class ShareGroupHeartbeatRequest(Request, api_key=76, versions="1", flexible="0+"):
    """Subscription of the member; unchanged fields may be omitted (KIP-932)."""

    group_id: str = fields.string()
    member_id: str = fields.string()
    member_epoch: int = fields.int32()
    """0: join; -1: leave."""
    rack_id: str | None = fields.string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = fields.array(
        fields.STRING, nullable="0+", default=None
    )


class ShareGroupHeartbeatResponse(Response, api_key=76, versions="1", flexible="0+"):
    """The assignment of the member, if it has changed."""

    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    member_id: str | None = fields.string(nullable="0+", default=None)
    member_epoch: int = fields.int32()
    heartbeat_interval_ms: int = fields.int32()
    assignment: Assignment | None = fields.optional_struct(Assignment, nullable="0+")
    """The partitions to fetch from, which other members may have too; None if unchanged."""
