"""The keys and values in `__consumer_offsets`, as Kafka writes them.

Each begins with its version as an int16; that of a key also identifies the type of the record.
"""

from strom.model.errors import ProtocolError
from strom.wire.kafka.fields import array, blob, int32, int64, string, uuid
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
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetValue(Struct, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: Uuid = uuid("4+", ignorable=True, tag=0)


class GroupKey(Struct, versions="2"):
    group: str = string()


class GroupValueMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = blob()
    assignment: bytes = blob()


class GroupValue(Struct, versions="0-4", flexible="4+"):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[GroupValueMember] = array(GroupValueMember)
