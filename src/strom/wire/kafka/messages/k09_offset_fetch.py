"""OffsetFetch (9): the committed offsets of groups."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, before version 8."""

    name: str = fields.string()
    partition_indexes: list[int] = fields.array(fields.INT32)


class OffsetFetchRequestTopics(Struct):
    name: str = fields.string("0-9", ignorable=True)
    topic_id: Uuid = fields.uuid("10+", ignorable=True)
    partition_indexes: list[int] = fields.array(fields.INT32)


class OffsetFetchRequestGroup(Struct):
    group_id: str = fields.string()
    member_id: str | None = fields.string("9+", nullable="0+", default=None, ignorable=True)
    member_epoch: int = fields.int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = fields.array(
        OffsetFetchRequestTopics, nullable="0+"
    )
    """None for all topics of the group."""


class OffsetFetchRequest(Request, api_key=9, versions="1-10", flexible="6+"):
    """The groups to read; before version 8 a single one, in the outer fields (KIP-709)."""

    group_id: str = fields.string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = fields.array(
        OffsetFetchRequestTopic, "0-7", nullable="2+"
    )
    """None for all topics of the group."""
    groups: list[OffsetFetchRequestGroup] = fields.array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = fields.boolean("7+")
    """Fail with UNSTABLE_OFFSET_COMMIT while a transaction on these offsets is open (KIP-447)."""


class OffsetFetchResponsePartition(Struct):
    """The committed offset of one partition, before version 8."""

    partition_index: int = fields.int32()
    committed_offset: int = fields.int64()
    """-1 for none."""
    committed_leader_epoch: int = fields.int32("5+", default=-1, ignorable=True)
    metadata: str | None = fields.string(nullable="0+")
    error_code: int = fields.int16()


class OffsetFetchResponseTopic(Struct):
    """The committed offsets of one topic, before version 8."""

    name: str = fields.string()
    partitions: list[OffsetFetchResponsePartition] = fields.array(OffsetFetchResponsePartition)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = fields.int32()
    committed_offset: int = fields.int64()
    """-1 for none."""
    committed_leader_epoch: int = fields.int32(default=-1, ignorable=True)
    metadata: str | None = fields.string(nullable="0+")
    error_code: int = fields.int16()


class OffsetFetchResponseTopics(Struct):
    name: str = fields.string("0-9", ignorable=True)
    topic_id: Uuid = fields.uuid("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = fields.array(OffsetFetchResponsePartitions)


class OffsetFetchResponseGroup(Struct):
    group_id: str = fields.string()
    topics: list[OffsetFetchResponseTopics] = fields.array(OffsetFetchResponseTopics)
    error_code: int = fields.int16()


class OffsetFetchResponse(Response, api_key=9, versions="1-10", flexible="6+"):
    """The offsets; before version 8 those of a single group, in the outer fields (KIP-709)."""

    throttle_time_ms: int = fields.int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = fields.array(OffsetFetchResponseTopic, "0-7")
    error_code: int = fields.int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = fields.array(OffsetFetchResponseGroup, "8+")
