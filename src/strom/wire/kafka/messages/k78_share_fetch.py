"""ShareFetch (78): acquire records of a share group, and acknowledge earlier ones."""

from strom.wire.kafka import fields
from strom.wire.kafka.messages.k00_produce import NodeEndpoint
from strom.wire.kafka.schema import Records, Request, Response, Struct, Uuid


class AcknowledgementBatch(Struct):
    """How to acknowledge a range of offsets, both ends included."""

    first_offset: int = fields.int64()
    last_offset: int = fields.int64()
    acknowledge_types: list[int] = fields.array(fields.INT8)
    """One for all, or one per offset: 0: gap; 1: accept; 2: release; 3: reject; 4: renew (KIP-1222)."""


class FetchPartition(Struct):
    """A partition to acquire from, with acknowledgements of records acquired before."""

    partition_index: int = fields.int32()
    partition_max_bytes: int = fields.int32("0")
    acknowledgement_batches: list[AcknowledgementBatch] = fields.array(AcknowledgementBatch)


class FetchTopic(Struct):
    topic_id: Uuid = fields.uuid()
    partitions: list[FetchPartition] = fields.array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions to remove from the share session."""

    topic_id: Uuid = fields.uuid()
    partitions: list[int] = fields.array(fields.INT32)


class ShareFetchRequest(Request, api_key=78, versions="1-2", flexible="0+"):
    """Acquires from the partitions of a share session, with these changes to it."""

    group_id: str | None = fields.string(nullable="0+", default=None)
    member_id: str | None = fields.string(nullable="0+")
    share_session_epoch: int = fields.int32()
    """0: open a session; -1: close it."""
    max_wait_ms: int = fields.int32()
    min_bytes: int = fields.int32()
    max_bytes: int = fields.int32(default=fields.INT32_MAX)
    max_records: int = fields.int32("1+")
    batch_size: int = fields.int32("1+")
    """The preferred number of records in one batch of acquired records."""
    share_acquire_mode: int = fields.int8("2+", ignorable=True)
    """0: whole batches, which may exceed `max_records`; 1: never exceed `max_records` (KIP-1206)."""
    is_renew_ack: bool = fields.boolean("2+")
    topics: list[FetchTopic] = fields.array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = fields.array(ForgottenTopic)


class LeaderIdAndEpoch(Struct):
    """The current leader, with NOT_LEADER_OR_FOLLOWER."""

    leader_id: int = fields.int32()
    leader_epoch: int = fields.int32()


class AcquiredRecords(Struct):
    """A range of offsets, both ends included, that the member now holds."""

    first_offset: int = fields.int64()
    last_offset: int = fields.int64()
    delivery_count: int = fields.int16()


class PartitionData(Struct):
    """Batches that hold acquired records (and possibly others), and the result of acknowledging."""

    partition_index: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    acknowledge_error_code: int = fields.int16()
    acknowledge_error_message: str | None = fields.string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = fields.struct(LeaderIdAndEpoch)
    records: Records = fields.record_batches(nullable="0")
    acquired_records: list[AcquiredRecords] = fields.array(AcquiredRecords)


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid = fields.uuid()
    partitions: list[PartitionData] = fields.array(PartitionData)


class ShareFetchResponse(Response, api_key=78, versions="1-2", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = fields.int32("1+")
    responses: list[ShareFetchableTopicResponse] = fields.array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = fields.array(NodeEndpoint)
