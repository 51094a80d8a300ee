"""LeaveGroup (13): stop being a member of a classic group."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class MemberIdentity(Struct):
    member_id: str = fields.string()
    group_instance_id: str | None = fields.string(nullable="0+", default=None)
    reason: str | None = fields.string("5+", nullable="0+", default=None, ignorable=True)


class LeaveGroupRequest(Request, api_key=13, versions="0-5", flexible="4+"):
    """The members to remove; before version 3 a single one (KIP-345)."""

    group_id: str = fields.string()
    member_id: str = fields.string("0-2")
    members: list[MemberIdentity] = fields.array(MemberIdentity, "3+")


class MemberResponse(Struct):
    member_id: str = fields.string()
    group_instance_id: str | None = fields.string(nullable="0+")
    error_code: int = fields.int16()


class LeaveGroupResponse(Response, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = fields.int32("1+", ignorable=True)
    error_code: int = fields.int16()
    members: list[MemberResponse] = fields.array(MemberResponse, "3+")
