"""The keys and values of share groups in `__consumer_offsets`, as Kafka writes them.

Each begins with an int16: in a key it tells which kind of record it is, in a value it is the version.
"""

from strom.wire.kafka.fields import (
    array,
    int8,
    int32,
    int32_array,
    int64,
    string,
    string_array,
    uuid,
)
from strom.wire.kafka.schema import Struct, Uuid

MEMBER_KEY = 10
GROUP_KEY = 11
TARGET_KEY = 12
TARGET_MEMBER_KEY = 13
CURRENT_KEY = 14
STATE_KEY = 15
VALUE_VERSION = 0


class ShareGroupKey(Struct, versions="0"):
    """Names a group."""

    group_id: str = string()


class ShareMemberKey(Struct, versions="0"):
    """Names a member of a group."""

    group_id: str = string()
    member_id: str = string()


class ShareMemberValue(Struct, versions="0", flexible="0+"):
    """What a member has said of itself."""

    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = string_array()


class ShareGroupValue(Struct, versions="0", flexible="0+"):
    """The epoch of a group, and a hash of the topics that it reads."""

    epoch: int = int32()
    metadata_hash: int = int64()


class ShareTargetValue(Struct, versions="0", flexible="0+"):
    """The epoch that partitions were last shared out for."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0)


class ShareTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    partitions: list[int] = int32_array()


class ShareTargetMemberValue(Struct, versions="0", flexible="0+"):
    """What a member shall read."""

    topic_partitions: list[ShareTopicPartitions] = array(ShareTopicPartitions)


class ShareCurrentValue(Struct, versions="0", flexible="0+"):
    """What a member was told to read."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[ShareTopicPartitions] = array(ShareTopicPartitions)


class ShareStateTopic(Struct):
    """A topic whose share state is there, or about to be."""

    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: list[int] = int32_array()


class ShareDeletingTopic(Struct):
    """A topic whose share state is about to go."""

    topic_id: Uuid = uuid()
    topic_name: str = string()


class ShareStateValue(Struct, versions="0", flexible="0+"):
    """The topics that a group has share state of."""

    initializing_topics: list[ShareStateTopic] = array(ShareStateTopic)
    initialized_topics: list[ShareStateTopic] = array(ShareStateTopic)
    deleting_topics: list[ShareDeletingTopic] = array(ShareDeletingTopic)
