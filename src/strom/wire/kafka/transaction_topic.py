"""The keys and values in `__transaction_state`, as Kafka writes them.

Each begins with its version as an int16.
"""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Struct

KEY_VERSION = 0
VALUE_VERSION = 1


class TransactionKey(Struct, versions="0"):
    transactional_id: str = fields.string()


class TransactionPartitions(Struct):
    """Partitions of one topic that a transaction has written to."""

    topic: str = fields.string()
    partition_ids: list[int] = fields.array(fields.INT32)


class TransactionValue(Struct, versions="0-1", flexible="1+"):
    """The whole state of a transactional id."""

    producer_id: int = fields.int64()
    previous_producer_id: int = fields.int64("1+", default=-1, ignorable=True, tag=0)
    next_producer_id: int = fields.int64("1+", default=-1, ignorable=True, tag=1)
    producer_epoch: int = fields.int16()
    next_producer_epoch: int = fields.int16("1+", default=-1, ignorable=True, tag=3)
    transaction_timeout_ms: int = fields.int32()
    transaction_status: int = fields.int8()
    transaction_partitions: list[TransactionPartitions] | None = fields.array(
        TransactionPartitions, nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = fields.int64()
    transaction_start_timestamp_ms: int = fields.int64()
    client_transaction_version: int = fields.int16("1+", default=0, ignorable=True, tag=2)
