"""DescribeGroups (15): the state and members of classic groups."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class DescribeGroupsRequest(Request, api_key=15, versions="0-6", flexible="5+"):
    groups: list[str] = fields.array(fields.STRING)
    include_authorized_operations: bool = fields.boolean("3+")


class DescribedGroupMember(Struct):
    member_id: str = fields.string()
    group_instance_id: str | None = fields.string("4+", nullable="0+", default=None, ignorable=True)
    client_id: str = fields.string()
    client_host: str = fields.string()
    member_metadata: bytes = fields.blob()
    member_assignment: bytes = fields.blob()


class DescribedGroup(Struct):
    error_code: int = fields.int16()
    error_message: str | None = fields.string("6+", nullable="0+", default=None)
    group_id: str = fields.string()
    group_state: str = fields.string()
    protocol_type: str = fields.string()
    protocol_data: str = fields.string()
    members: list[DescribedGroupMember] = fields.array(DescribedGroupMember)
    authorized_operations: int = fields.int32("3+", default=fields.INT32_MIN)


class DescribeGroupsResponse(Response, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = fields.int32("1+", ignorable=True)
    groups: list[DescribedGroup] = fields.array(DescribedGroup)
