"""DeleteGroups (42)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class DeleteGroupsRequest(Request, api_key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = fields.array(fields.STRING)


class DeletableGroupResult(Struct):
    group_id: str = fields.string()
    error_code: int = fields.int16()


class DeleteGroupsResponse(Response, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int = fields.int32()
    results: list[DeletableGroupResult] = fields.array(DeletableGroupResult)
