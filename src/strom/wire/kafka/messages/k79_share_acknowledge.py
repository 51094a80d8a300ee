"""ShareAcknowledge (79): acknowledge acquired records without fetching more."""

from strom.wire.kafka import fields
from strom.wire.kafka.messages.k00_produce import NodeEndpoint
from strom.wire.kafka.messages.k78_share_fetch import AcknowledgementBatch, LeaderIdAndEpoch
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class AcknowledgePartition(Struct):
    partition_index: int = fields.int32()
    acknowledgement_batches: list[AcknowledgementBatch] = fields.array(AcknowledgementBatch)


class AcknowledgeTopic(Struct):
    topic_id: Uuid = fields.uuid()
    partitions: list[AcknowledgePartition] = fields.array(AcknowledgePartition)


class ShareAcknowledgeRequest(Request, api_key=79, versions="1-2", flexible="0+"):
    group_id: str | None = fields.string(nullable="0+", default=None)
    member_id: str | None = fields.string(nullable="0+")
    share_session_epoch: int = fields.int32()
    """-1: close the session; 0 is invalid here, because only ShareFetch opens one."""
    is_renew_ack: bool = fields.boolean("2+")
    topics: list[AcknowledgeTopic] = fields.array(AcknowledgeTopic)


class PartitionData(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = fields.struct(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid = fields.uuid()
    partitions: list[PartitionData] = fields.array(PartitionData)


class ShareAcknowledgeResponse(Response, api_key=79, versions="1-2", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = fields.int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = fields.array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = fields.array(NodeEndpoint)
