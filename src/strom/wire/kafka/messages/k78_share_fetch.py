"""ShareFetch (78): acquire records of a share group, and acknowledge earlier ones."""

from strom.wire.kafka.fields import (
    INT32_MAX,
    array,
    boolean,
    int8,
    int8_array,
    int16,
    int32,
    int32_array,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)
from strom.wire.kafka.schema import Records, Request, Response, Struct, Uuid


class AcknowledgementBatch(Struct):
    """How to acknowledge a range of offsets, both ends included."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = int8_array()
    """One for all, or one per offset: 0: gap; 1: accept; 2: release; 3: reject; 4: renew (KIP-1222)."""


class FetchPartition(Struct):
    """A partition to acquire from, with acknowledgements of records acquired before."""

    partition_index: int = int32()
    partition_max_bytes: int = int32("0")
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class FetchTopic(Struct):
    topic_id: Uuid = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions to remove from the share session."""

    topic_id: Uuid = uuid()
    partitions: list[int] = int32_array()


class ShareFetchRequest(Request, api_key=78, versions="1-2", flexible="0+"):
    """Acquires from the partitions of a share session, with these changes to it."""

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    """0: open a session; -1: close it."""
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=INT32_MAX)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    """The preferred number of records in one batch of acquired records."""
    share_acquire_mode: int = int8("2+", ignorable=True)
    """0: whole batches, which may exceed `max_records`; 1: never exceed `max_records` (KIP-1206)."""
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


class LeaderIdAndEpoch(Struct):
    """The current leader, with NOT_LEADER_OR_FOLLOWER."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class AcquiredRecords(Struct):
    """A range of offsets, both ends included, that the member now holds."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class PartitionData(Struct):
    """Batches that hold acquired records (and possibly others), and the result of acknowledging."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    records: Records = record_batches(nullable="0")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """The address of a leader named in the response."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class ShareFetchResponse(Response, api_key=78, versions="1-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
