"""Fetch (1): read record batches from partitions, waiting for them if asked to."""

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
    """Which follower asks; consumers leave it out."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchPartition(Struct):
    """From where, and how much, to read of one partition."""

    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: Uuid = uuid("17+", ignorable=True, tag=0)
    high_watermark: int = int64("18+", default=INT64_MAX, ignorable=True, tag=1)
    """What a follower knows already, so that the leader need not wait to tell it."""


class FetchTopic(Struct):
    """Partitions of one topic to read."""

    topic: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions to take out of the fetch session."""

    topic: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partitions: list[int] = int32_array()


class FetchRequest(Request, api_key=1, versions="4-18", flexible="12+"):
    """Read these partitions, or those of a session with these changes."""

    cluster_id: str | None = string("12+", nullable="0+", default=None, ignorable=True, tag=0)
    replica_id: int = int32("0-14", default=-1)
    """The follower that asks, -1 for consumers; in `replica_state` from version 15 on."""
    replica_state: ReplicaState | None = optional_struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=INT32_MAX)
    isolation_level: int = int8()
    """0 reads all records, 1 only committed ones."""
    session_id: int = int32("7+", ignorable=True)
    """0 for no session yet."""
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    """0 opens a session, -1 closes it or goes without."""
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


class EpochEndOffset(Struct):
    """Where the log of the leader and of the reader part."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct):
    """The leader to turn to instead."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct):
    """The snapshot to read first."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    """A transaction whose records a read-committed consumer must skip."""

    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    """The batches of one partition, or why there are none."""

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
    """The broker to read from instead, -1 for this one."""
    records: Records = record_batches()


class FetchableTopicResponse(Struct):
    """The batches of one topic."""

    topic: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """How to reach a leader named in the answer."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class FetchResponse(Response, api_key=1, versions="4-18", flexible="12+"):
    """The batches that were there."""

    throttle_time_ms: int = int32()
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
