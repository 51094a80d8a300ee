"""The keys and values in `__share_group_state`, as Kafka writes them.

Each begins with an int16: in a key the type of the record, in a value its version.
"""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Struct, Uuid

SNAPSHOT_KEY = 0
UPDATE_KEY = 1
VALUE_VERSION = 0


class StateKey(Struct, versions="0"):
    """A share partition: the key of snapshots and of updates."""

    group_id: str = fields.string()
    topic_id: Uuid = fields.uuid()
    partition: int = fields.int32()


class StateBatchValue(Struct):
    """A range of offsets with its delivery state."""

    first_offset: int = fields.int64()
    last_offset: int = fields.int64()
    delivery_state: int = fields.int8()
    delivery_count: int = fields.int16()


class SnapshotValue(Struct, versions="0", flexible="0+"):
    """The whole state of a share partition."""

    snapshot_epoch: int = fields.int32()
    state_epoch: int = fields.int32()
    leader_epoch: int = fields.int32()
    start_offset: int = fields.int64()
    delivery_complete_count: int = fields.int32(default=-1, tag=0)
    create_timestamp: int = fields.int64()
    write_timestamp: int = fields.int64()
    state_batches: list[StateBatchValue] = fields.array(StateBatchValue)


class UpdateValue(Struct, versions="0", flexible="0+"):
    """What has changed since the last snapshot and the updates after it; replayed in order."""

    snapshot_epoch: int = fields.int32()
    leader_epoch: int = fields.int32()
    start_offset: int = fields.int64()
    delivery_complete_count: int = fields.int32(default=-1, tag=0)
    state_batches: list[StateBatchValue] = fields.array(StateBatchValue)
