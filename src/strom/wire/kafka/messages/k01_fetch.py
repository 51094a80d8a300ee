"""Fetch (1): read record batches from partitions, with long polling."""

from strom.wire.kafka.fields import (
    INT32_MAX,
    INT64_MAX,
    array,
    int8,
    int16,
    int32,
    int32_array,
    int64,
    optional_struct,
    record_batches,
    string,
    uuid,
)
from strom.wire.kafka.schema import Records, Request, Response, Struct, Uuid


class ReplicaState(Struct):
    """Which follower fetches; consumers leave it out."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: Uuid = uuid("17+", ignorable=True, tag=0)
    high_watermark: int = int64("18+", default=INT64_MAX, ignorable=True, tag=1)
    """The high watermark that a follower knows; the leader responds when it has moved (KIP-1166)."""


class FetchTopic(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions to remove from the fetch session (KIP-227)."""

    topic: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partitions: list[int] = int32_array()


class FetchRequest(Request, api_key=1, versions="4-18", flexible="12+"):
    """The partitions to read, or the changes to those of a fetch session (KIP-227)."""

    cluster_id: str | None = string("12+", nullable="0+", default=None, ignorable=True, tag=0)
    replica_id: int = int32("0-14", default=-1)
    """The fetching follower, -1 for consumers; in `replica_state` since version 15 (KIP-903)."""
    replica_state: ReplicaState | None = optional_struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=INT32_MAX)
    isolation_level: int = int8()
    """0: read_uncommitted; 1: read_committed."""
    session_id: int = int32("7+", ignorable=True)
    """0: no session yet."""
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    """0: open a session; -1: close the session, or fetch without one."""
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


class EpochEndOffset(Struct):
    """Where the logs of the leader and the follower diverge (KIP-595)."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct):
    """The current leader, with NOT_LEADER_OR_FOLLOWER (KIP-951)."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct):
    """The snapshot that a follower must fetch first (KIP-630)."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    """A transaction whose records a read_committed consumer must skip."""

    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = optional_struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = optional_struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = optional_struct(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="0+")
    preferred_read_replica: int = int32("11+", default=-1)
    """The replica to read from instead (KIP-392), -1 for this broker."""
    records: Records = record_batches()


class FetchableTopicResponse(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """The address of a leader named in the response (KIP-951)."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class FetchResponse(Response, api_key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
