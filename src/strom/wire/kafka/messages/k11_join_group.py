"""JoinGroup (11): become a member of a classic group."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class JoinGroupRequestProtocol(Struct):
    """An assignor that the member supports, and its subscription for it."""

    name: str = fields.string()
    metadata: bytes = fields.blob()


class JoinGroupRequest(Request, api_key=11, versions="0-9", flexible="6+"):
    group_id: str = fields.string()
    session_timeout_ms: int = fields.int32()
    rebalance_timeout_ms: int = fields.int32("1+", default=-1, ignorable=True)
    member_id: str = fields.string()
    """Empty for a new member."""
    group_instance_id: str | None = fields.string("5+", nullable="0+", default=None)
    """The id of a static member, which survives its restarts (KIP-345)."""
    protocol_type: str = fields.string()
    protocols: list[JoinGroupRequestProtocol] = fields.array(JoinGroupRequestProtocol)
    reason: str | None = fields.string("8+", nullable="0+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str = fields.string()
    group_instance_id: str | None = fields.string("5+", nullable="0+", default=None, ignorable=True)
    metadata: bytes = fields.blob()


class JoinGroupResponse(Response, api_key=11, versions="0-9", flexible="6+"):
    """The generation joined; only the leader gets the list of members."""

    throttle_time_ms: int = fields.int32("2+", ignorable=True)
    error_code: int = fields.int16()
    generation_id: int = fields.int32(default=-1)
    protocol_type: str | None = fields.string("7+", nullable="0+", default=None, ignorable=True)
    protocol_name: str | None = fields.string(nullable="7+")
    leader: str = fields.string()
    skip_assignment: bool = fields.boolean("9+")
    member_id: str = fields.string()
    members: list[JoinGroupResponseMember] = fields.array(JoinGroupResponseMember)
