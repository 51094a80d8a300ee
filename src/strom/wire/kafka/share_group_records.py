"""The keys and values of share groups in `__consumer_offsets`, as Kafka writes them.

Each begins with an int16: in a key the type of the record, in a value its version.
"""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Struct, Uuid

MEMBER_KEY = 10
GROUP_KEY = 11
TARGET_KEY = 12
TARGET_MEMBER_KEY = 13
CURRENT_KEY = 14
STATE_KEY = 15
VALUE_VERSION = 0


class ShareGroupKey(Struct, versions="0"):
    group_id: str = fields.string()


class ShareMemberKey(Struct, versions="0"):
    group_id: str = fields.string()
    member_id: str = fields.string()


class ShareMemberValue(Struct, versions="0", flexible="0+"):
    rack_id: str | None = fields.string(nullable="0+")
    client_id: str = fields.string()
    client_host: str = fields.string()
    subscribed_topic_names: list[str] = fields.array(fields.STRING)


class ShareGroupValue(Struct, versions="0", flexible="0+"):
    """The epoch of a group, and a hash of its subscribed topics' metadata."""

    epoch: int = fields.int32()
    metadata_hash: int = fields.int64()


class ShareTargetValue(Struct, versions="0", flexible="0+"):
    """The group epoch of the target assignment."""

    assignment_epoch: int = fields.int32()
    assignment_timestamp: int = fields.int64(ignorable=True, tag=0)


class ShareTopicPartitions(Struct):
    topic_id: Uuid = fields.uuid()
    partitions: list[int] = fields.array(fields.INT32)


class ShareTargetMemberValue(Struct, versions="0", flexible="0+"):
    """The target assignment of a member."""

    topic_partitions: list[ShareTopicPartitions] = fields.array(ShareTopicPartitions)


class ShareCurrentValue(Struct, versions="0", flexible="0+"):
    """The current assignment of a member."""

    member_epoch: int = fields.int32()
    previous_member_epoch: int = fields.int32()
    state: int = fields.int8()
    assigned_partitions: list[ShareTopicPartitions] = fields.array(ShareTopicPartitions)


class ShareStateTopic(Struct):
    """A topic with share state, initialized or being initialized."""

    topic_id: Uuid = fields.uuid()
    topic_name: str = fields.string()
    partitions: list[int] = fields.array(fields.INT32)


class ShareDeletingTopic(Struct):
    """A topic whose share state is being deleted."""

    topic_id: Uuid = fields.uuid()
    topic_name: str = fields.string()


class ShareStateValue(Struct, versions="0", flexible="0+"):
    """The topics for which a group has share state."""

    initializing_topics: list[ShareStateTopic] = fields.array(ShareStateTopic)
    initialized_topics: list[ShareStateTopic] = fields.array(ShareStateTopic)
    deleting_topics: list[ShareDeletingTopic] = fields.array(ShareDeletingTopic)
