"""JoinGroup (11): become a member of a classic group."""

from strom.wire.kafka.fields import (
    array,
    blob,
    boolean,
    int16,
    int32,
    string,
)
from strom.wire.kafka.schema import Request, Response, Struct


class JoinGroupRequestProtocol(Struct):
    """An assignor that the member supports, and its subscription for it."""

    name: str = string()
    metadata: bytes = blob()


class JoinGroupRequest(Request, api_key=11, versions="0-9", flexible="6+"):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    """Empty for a new member."""
    group_instance_id: str | None = string("5+", nullable="0+", default=None)
    """The id of a static member, which survives its restarts (KIP-345)."""
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="0+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="0+", default=None, ignorable=True)
    metadata: bytes = blob()


class JoinGroupResponse(Response, api_key=11, versions="0-9", flexible="6+"):
    """The generation joined; only the leader gets the list of members."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="0+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
