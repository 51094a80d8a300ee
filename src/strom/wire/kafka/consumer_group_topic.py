"""The keys and values of consumer groups in `__consumer_offsets`, as Kafka writes them.

A key begins with the type of the record (int16), a value with its version (int16), which is always 0.
"""

from strom.wire.kafka.fields import (
    array,
    blob,
    int8,
    int32,
    int32_array,
    int64,
    optional_struct,
    string,
    string_array,
    uuid,
)
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

    group: str = string()


class ConsumerGroupMemberKey(Struct, versions="0"):
    """The key of a member's metadata, target assignment and current assignment."""

    group: str = string()
    member: str = string()


class ConsumerGroupPatternKey(Struct, versions="0"):
    group: str = string()
    pattern: str = string()


class EpochValue(Struct, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ClassicProtocolValue(Struct):
    name: str = string()
    metadata: bytes = blob()


class ClassicMemberValue(Struct):
    """The additional state of a member that uses the classic protocol."""

    session_timeout_ms: int = int32()
    protocols: list[ClassicProtocolValue] = array(ClassicProtocolValue)


class MemberValue(Struct, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = string_array()
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic: ClassicMemberValue | None = optional_struct(ClassicMemberValue, nullable="0+", tag=0)


class TargetEpochValue(Struct, versions="0", flexible="0+"):
    """The group epoch of the target assignment."""

    epoch: int = int32()
    timestamp: int = int64(tag=0, ignorable=True)


class TargetPartitionsValue(Struct):
    topic_id: Uuid = uuid()
    partitions: list[int] = int32_array()


class TargetValue(Struct, versions="0", flexible="0+"):
    """The target assignment of a member."""

    topics: list[TargetPartitionsValue] = array(TargetPartitionsValue)


class CurrentPartitionsValue(Struct):
    """Partitions of one topic, with the epoch in which each was assigned."""

    topic_id: Uuid = uuid()
    partitions: list[int] = int32_array()
    epochs: list[int] | None = int32_array(nullable="0+", default=None, tag=0)


class CurrentValue(Struct, versions="0", flexible="0+"):
    epoch: int = int32()
    previous_epoch: int = int32()
    state: int = int8()
    assigned: list[CurrentPartitionsValue] = array(CurrentPartitionsValue)
    revoking: list[CurrentPartitionsValue] = array(CurrentPartitionsValue)


class PatternValue(Struct, versions="0", flexible="0+"):
    """The topics that match a pattern."""

    topics: list[str] = string_array()
    version: int = int64()
    timestamp: int = int64()
