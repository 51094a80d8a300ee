"""Heartbeat (12): stay a member of a classic group."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response


class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+"):
    group_id: str = fields.string()
    generation_id: int = fields.int32()
    member_id: str = fields.string()
    group_instance_id: str | None = fields.string("3+", nullable="0+", default=None)


class HeartbeatResponse(Response, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = fields.int32("1+", ignorable=True)
    error_code: int = fields.int16()
