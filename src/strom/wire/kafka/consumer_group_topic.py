"""The keys and values of consumer groups in `__consumer_offsets`, as Kafka writes them.

A key begins with the number of its kind (int16), a value with its version (int16), which is 0 for all.
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
    """Names a group: its epoch, or that of its target assignment."""

    group: str = string()


class ConsumerGroupMemberKey(Struct, versions="0"):
    """Names a member: what it said, what it shall have, or what it has."""

    group: str = string()
    member: str = string()


class ConsumerGroupPatternKey(Struct, versions="0"):
    """Names a pattern that members of a group subscribe to."""

    group: str = string()
    pattern: str = string()


class EpochValue(Struct, versions="0", flexible="0+"):
    """The epoch of a group."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ClassicProtocolValue(Struct):
    """A protocol that a classic member knows."""

    name: str = string()
    metadata: bytes = blob()


class ClassicMemberValue(Struct):
    """What a member of the classic protocol has besides."""

    session_timeout_ms: int = int32()
    protocols: list[ClassicProtocolValue] = array(ClassicProtocolValue)


class MemberValue(Struct, versions="0", flexible="0+"):
    """What a member said of itself."""

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
    """The epoch that the target assignment was made for."""

    epoch: int = int32()
    timestamp: int = int64(tag=0, ignorable=True)


class TargetPartitionsValue(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    partitions: list[int] = int32_array()


class TargetValue(Struct, versions="0", flexible="0+"):
    """What a member shall have."""

    topics: list[TargetPartitionsValue] = array(TargetPartitionsValue)


class CurrentPartitionsValue(Struct):
    """Partitions of one topic, and since which epoch each of them."""

    topic_id: Uuid = uuid()
    partitions: list[int] = int32_array()
    epochs: list[int] | None = int32_array(nullable="0+", default=None, tag=0)


class CurrentValue(Struct, versions="0", flexible="0+"):
    """What a member has."""

    epoch: int = int32()
    previous_epoch: int = int32()
    state: int = int8()
    assigned: list[CurrentPartitionsValue] = array(CurrentPartitionsValue)
    revoking: list[CurrentPartitionsValue] = array(CurrentPartitionsValue)


class PatternValue(Struct, versions="0", flexible="0+"):
    """The topics that a pattern stands for."""

    topics: list[str] = string_array()
    version: int = int64()
    timestamp: int = int64()
