"""OffsetFetch (9): the committed offsets of groups."""

from strom.wire.kafka.fields import (
    array,
    boolean,
    int16,
    int32,
    int32_array,
    int64,
    string,
    uuid,
)
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, before version 8."""

    name: str = string()
    partition_indexes: list[int] = int32_array()


class OffsetFetchRequestTopics(Struct):
    name: str = string("0-9", ignorable=True)
    topic_id: Uuid = uuid("10+", ignorable=True)
    partition_indexes: list[int] = int32_array()


class OffsetFetchRequestGroup(Struct):
    group_id: str = string()
    member_id: str | None = string("9+", nullable="0+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="0+")
    """None for all topics of the group."""


class OffsetFetchRequest(Request, api_key=9, versions="1-10", flexible="6+"):
    """The groups to read; before version 8 a single one, in the outer fields (KIP-709)."""

    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2+"
    )
    """None for all topics of the group."""
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")
    """Fail with UNSTABLE_OFFSET_COMMIT while a transaction on these offsets is open (KIP-447)."""


class OffsetFetchResponsePartition(Struct):
    """The committed offset of one partition, before version 8."""

    partition_index: int = int32()
    committed_offset: int = int64()
    """-1 for none."""
    committed_leader_epoch: int = int32("5+", default=-1, ignorable=True)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


class OffsetFetchResponseTopic(Struct):
    """The committed offsets of one topic, before version 8."""

    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    """-1 for none."""
    committed_leader_epoch: int = int32(default=-1, ignorable=True)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


class OffsetFetchResponseTopics(Struct):
    name: str = string("0-9", ignorable=True)
    topic_id: Uuid = uuid("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


class OffsetFetchResponseGroup(Struct):
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


class OffsetFetchResponse(Response, api_key=9, versions="1-10", flexible="6+"):
    """The offsets; before version 8 those of a single group, in the outer fields (KIP-709)."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
