"""SyncGroup (14): submit and fetch the assignments of a classic group."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class SyncGroupRequestAssignment(Struct):
    member_id: str = fields.string()
    assignment: bytes = fields.blob()


class SyncGroupRequest(Request, api_key=14, versions="0-5", flexible="4+"):
    """Fetches the assignment of the member; that of the leader carries the assignments of all."""

    group_id: str = fields.string()
    generation_id: int = fields.int32()
    member_id: str = fields.string()
    group_instance_id: str | None = fields.string("3+", nullable="0+", default=None)
    protocol_type: str | None = fields.string("5+", nullable="0+", default=None, ignorable=True)
    protocol_name: str | None = fields.string("5+", nullable="0+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = fields.array(SyncGroupRequestAssignment)


class SyncGroupResponse(Response, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = fields.int32("1+", ignorable=True)
    error_code: int = fields.int16()
    protocol_type: str | None = fields.string("5+", nullable="0+", default=None, ignorable=True)
    protocol_name: str | None = fields.string("5+", nullable="0+", default=None, ignorable=True)
    assignment: bytes = fields.blob()
