"""ShareGroupDescribe (77): the state and members of share groups."""

from strom.wire.kafka import fields
from strom.wire.kafka.messages.k69_consumer_group_describe import Assignment
from strom.wire.kafka.schema import Request, Response, Struct


class ShareGroupDescribeRequest(Request, api_key=77, versions="1", flexible="0+"):
    group_ids: list[str] = fields.array(fields.STRING)
    include_authorized_operations: bool = fields.boolean()


class Member(Struct):
    member_id: str = fields.string()
    rack_id: str | None = fields.string(nullable="0+", default=None)
    member_epoch: int = fields.int32()
    client_id: str = fields.string()
    client_host: str = fields.string()
    subscribed_topic_names: list[str] = fields.array(fields.STRING)
    assignment: Assignment = fields.struct(Assignment)


class DescribedGroup(Struct):
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    group_id: str = fields.string()
    group_state: str = fields.string()
    group_epoch: int = fields.int32()
    assignment_epoch: int = fields.int32()
    assignor_name: str = fields.string()
    members: list[Member] = fields.array(Member)
    authorized_operations: int = fields.int32(default=fields.INT32_MIN)


class ShareGroupDescribeResponse(Response, api_key=77, versions="1", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    groups: list[DescribedGroup] = fields.array(DescribedGroup)
