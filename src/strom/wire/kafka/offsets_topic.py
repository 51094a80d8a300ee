"""The keys and values in `__consumer_offsets`, as Kafka writes them.

Each begins with its version as an int16; that of a key also identifies the type of the record.
"""

from strom.model.errors import ProtocolError
from strom.wire.kafka import fields
from strom.wire.kafka.schema import Struct, Uuid

OFFSET_KEY_VERSIONS = (0, 1)
OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3


def version_of(data: bytes) -> int:
    """The version that a key or a value begins with."""
    if len(data) < 2:
        raise ProtocolError("no version at the start")
    return int.from_bytes(data[:2], "big", signed=True)


class OffsetKey(Struct, versions="0-1"):
    group: str = fields.string()
    topic: str = fields.string()
    partition: int = fields.int32()


class OffsetValue(Struct, versions="0-4", flexible="4+"):
    offset: int = fields.int64()
    leader_epoch: int = fields.int32("3+", default=-1, ignorable=True)
    metadata: str = fields.string()
    commit_timestamp: int = fields.int64()
    expire_timestamp: int = fields.int64("1", default=-1, ignorable=True)
    topic_id: Uuid = fields.uuid("4+", ignorable=True, tag=0)


class GroupKey(Struct, versions="2"):
    group: str = fields.string()


class GroupValueMember(Struct):
    member_id: str = fields.string()
    group_instance_id: str | None = fields.string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = fields.string()
    client_host: str = fields.string()
    rebalance_timeout: int = fields.int32("1+", default=-1, ignorable=True)
    session_timeout: int = fields.int32()
    subscription: bytes = fields.blob()
    assignment: bytes = fields.blob()


class GroupValue(Struct, versions="0-4", flexible="4+"):
    protocol_type: str = fields.string()
    generation: int = fields.int32()
    protocol: str | None = fields.string(nullable="0+")
    leader: str | None = fields.string(nullable="0+")
    current_state_timestamp: int = fields.int64("2+", default=-1, ignorable=True)
    members: list[GroupValueMember] = fields.array(GroupValueMember)
