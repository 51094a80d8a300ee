"""The keys and values of consumer groups in `__consumer_offsets`, as Kafka writes them.

A key begins with the type of the record (int16), a value with its version (int16), which is always 0.
"""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Struct, Uuid

VERSION = 0

EPOCH_KIND = 3
MEMBER_KIND = 5
TARGET_EPOCH_KIND = 6
TARGET_KIND = 7
CURRENT_KIND = 8
PATTERN_KIND = 16


class ConsumerGroupKey(Struct, versions="0"):
    """The key of a group's epoch, and of its target assignment's epoch."""

    group: str = fields.string()


class ConsumerGroupMemberKey(Struct, versions="0"):
    """The key of a member's metadata, target assignment and current assignment."""

    group: str = fields.string()
    member: str = fields.string()


class ConsumerGroupPatternKey(Struct, versions="0"):
    group: str = fields.string()
    pattern: str = fields.string()


class EpochValue(Struct, versions="0", flexible="0+"):
    epoch: int = fields.int32()
    metadata_hash: int = fields.int64(tag=0)


class ClassicProtocolValue(Struct):
    name: str = fields.string()
    metadata: bytes = fields.blob()


class ClassicMemberValue(Struct):
    """The additional state of a member that uses the classic protocol."""

    session_timeout_ms: int = fields.int32()
    protocols: list[ClassicProtocolValue] = fields.array(ClassicProtocolValue)


class MemberValue(Struct, versions="0", flexible="0+"):
    instance_id: str | None = fields.string(nullable="0+")
    rack_id: str | None = fields.string(nullable="0+")
    client_id: str = fields.string()
    client_host: str = fields.string()
    subscribed_topic_names: list[str] = fields.array(fields.STRING)
    subscribed_topic_regex: str | None = fields.string(nullable="0+")
    rebalance_timeout_ms: int = fields.int32(default=-1)
    server_assignor: str | None = fields.string(nullable="0+")
    classic: ClassicMemberValue | None = fields.optional_struct(
        ClassicMemberValue, nullable="0+", tag=0
    )


class TargetEpochValue(Struct, versions="0", flexible="0+"):
    """The group epoch of the target assignment."""

    epoch: int = fields.int32()
    timestamp: int = fields.int64(tag=0, ignorable=True)


class TargetPartitionsValue(Struct):
    topic_id: Uuid = fields.uuid()
    partitions: list[int] = fields.array(fields.INT32)


class TargetValue(Struct, versions="0", flexible="0+"):
    """The target assignment of a member."""

    topics: list[TargetPartitionsValue] = fields.array(TargetPartitionsValue)


class CurrentPartitionsValue(Struct):
    """Partitions of one topic, with the epoch in which each was assigned."""

    topic_id: Uuid = fields.uuid()
    partitions: list[int] = fields.array(fields.INT32)
    epochs: list[int] | None = fields.array(fields.INT32, nullable="0+", default=None, tag=0)


class CurrentValue(Struct, versions="0", flexible="0+"):
    epoch: int = fields.int32()
    previous_epoch: int = fields.int32()
    state: int = fields.int8()
    assigned: list[CurrentPartitionsValue] = fields.array(CurrentPartitionsValue)
    revoking: list[CurrentPartitionsValue] = fields.array(CurrentPartitionsValue)


class PatternValue(Struct, versions="0", flexible="0+"):
    """The topics that match a pattern."""

    topics: list[str] = fields.array(fields.STRING)
    version: int = fields.int64()
    timestamp: int = fields.int64()
