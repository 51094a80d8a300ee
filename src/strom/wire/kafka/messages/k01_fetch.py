"""Fetch (1): read record batches from partitions, with long polling."""

from strom.wire.kafka import fields
from strom.wire.kafka.messages.k00_produce import LeaderIdAndEpoch, NodeEndpoint
from strom.wire.kafka.schema import Records, Request, Response, Struct, Uuid


class ReplicaState(Struct):
    """Which follower fetches; consumers leave it out."""

    replica_id: int = fields.int32(default=-1)
    replica_epoch: int = fields.int64(default=-1)


class FetchPartition(Struct):
    partition: int = fields.int32()
    current_leader_epoch: int = fields.int32("9+", default=-1, ignorable=True)
    fetch_offset: int = fields.int64()
    last_fetched_epoch: int = fields.int32("12+", default=-1)
    log_start_offset: int = fields.int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = fields.int32()
    replica_directory_id: Uuid = fields.uuid("17+", ignorable=True, tag=0)
    high_watermark: int = fields.int64("18+", default=fields.INT64_MAX, ignorable=True, tag=1)
    """The high watermark that a follower knows; the leader responds when it has moved (KIP-1166)."""


class FetchTopic(Struct):
    topic: str = fields.string("0-12", ignorable=True)
    topic_id: Uuid = fields.uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = fields.array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions to remove from the fetch session (KIP-227)."""

    topic: str = fields.string("0-12", ignorable=True)
    topic_id: Uuid = fields.uuid("13+", ignorable=True)
    partitions: list[int] = fields.array(fields.INT32)


class FetchRequest(Request, api_key=1, versions="4-18", flexible="12+"):
    """The partitions to read, or the changes to those of a fetch session (KIP-227)."""

    cluster_id: str | None = fields.string(
        "12+", nullable="0+", default=None, ignorable=True, tag=0
    )
    replica_id: int = fields.int32("0-14", default=-1)
    """The fetching follower, -1 for consumers; in `replica_state` since version 15 (KIP-903)."""
    replica_state: ReplicaState | None = fields.optional_struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = fields.int32()
    min_bytes: int = fields.int32()
    max_bytes: int = fields.int32(default=fields.INT32_MAX)
    isolation_level: int = fields.int8()
    """0: read_uncommitted; 1: read_committed."""
    session_id: int = fields.int32("7+", ignorable=True)
    """0: no session yet."""
    session_epoch: int = fields.int32("7+", default=-1, ignorable=True)
    """0: open a session; -1: close the session, or fetch without one."""
    topics: list[FetchTopic] = fields.array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = fields.array(ForgottenTopic, "7+")
    rack_id: str = fields.string("11+", ignorable=True)


class EpochEndOffset(Struct):
    """Where the logs of the leader and the follower diverge (KIP-595)."""

    epoch: int = fields.int32(default=-1)
    end_offset: int = fields.int64(default=-1)


class SnapshotId(Struct):
    """The snapshot that a follower must fetch first (KIP-630)."""

    end_offset: int = fields.int64(default=-1)
    epoch: int = fields.int32(default=-1)


class AbortedTransaction(Struct):
    """A transaction whose records a read_committed consumer must skip."""

    producer_id: int = fields.int64()
    first_offset: int = fields.int64()


class PartitionData(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()
    high_watermark: int = fields.int64()
    last_stable_offset: int = fields.int64(default=-1)
    log_start_offset: int = fields.int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = fields.optional_struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = fields.optional_struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = fields.optional_struct(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = fields.array(
        AbortedTransaction, nullable="0+"
    )
    preferred_read_replica: int = fields.int32("11+", default=-1)
    """The replica to read from instead (KIP-392), -1 for this broker."""
    records: Records = fields.record_batches()


class FetchableTopicResponse(Struct):
    topic: str = fields.string("0-12", ignorable=True)
    topic_id: Uuid = fields.uuid("13+", ignorable=True)
    partitions: list[PartitionData] = fields.array(PartitionData)


class FetchResponse(Response, api_key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16("7+", ignorable=True)
    session_id: int = fields.int32("7+")
    responses: list[FetchableTopicResponse] = fields.array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = fields.array(NodeEndpoint, "16+", tag=0)
