"""ConsumerGroupDescribe (69): the state and members of consumer groups."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class ConsumerGroupDescribeRequest(Request, api_key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = fields.array(fields.STRING)
    include_authorized_operations: bool = fields.boolean()


class TopicPartitions(Struct):
    topic_id: Uuid = fields.uuid()
    topic_name: str = fields.string()
    partitions: list[int] = fields.array(fields.INT32)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = fields.array(TopicPartitions)


class Member(Struct):
    member_id: str = fields.string()
    instance_id: str | None = fields.string(nullable="0+", default=None)
    rack_id: str | None = fields.string(nullable="0+", default=None)
    member_epoch: int = fields.int32()
    client_id: str = fields.string()
    client_host: str = fields.string()
    subscribed_topic_names: list[str] = fields.array(fields.STRING)
    subscribed_topic_regex: str | None = fields.string(nullable="0+", default=None)
    assignment: Assignment = fields.struct(Assignment)
    target_assignment: Assignment = fields.struct(Assignment)
    member_type: int = fields.int8("1+", default=-1, ignorable=True)
    """-1: unknown; 0: classic; 1: consumer."""


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


class ConsumerGroupDescribeResponse(Response, api_key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    groups: list[DescribedGroup] = fields.array(DescribedGroup)
