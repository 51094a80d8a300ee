"""ListGroups (16)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class ListGroupsRequest(Request, api_key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = fields.array(fields.STRING, "4+")
    types_filter: list[str] = fields.array(fields.STRING, "5+")


class ListedGroup(Struct):
    group_id: str = fields.string()
    protocol_type: str = fields.string()
    group_state: str = fields.string("4+", ignorable=True)
    group_type: str = fields.string("5+", ignorable=True)


class ListGroupsResponse(Response, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = fields.int32("1+", ignorable=True)
    error_code: int = fields.int16()
    groups: list[ListedGroup] = fields.array(ListedGroup)
