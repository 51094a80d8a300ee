"""The records of transactions, and their bytes in `__transaction_state`.

Each record holds the whole state of a transactional id, so that the topic can be compacted by key. The
bytes are Kafka's, so that its tools can read them.
"""

from dataclasses import dataclass
from typing import TypeAlias

from strom.coordination.stored_records import decode_key, decode_value, encode_key, encode_value
from strom.coordination.transactions.states import TransactionState
from strom.model.errors import CorruptData, ProtocolError
from strom.model.topics import TopicPartition
from strom.wire.kafka import transaction_topic as stored
from strom.wire.kafka.offsets_topic import version_of

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NOT_STARTED = -1
FIRST_VERSION_WITH_BUMPS = 2
LAST_EPOCH = 32767
"""Never given to a client: it is reserved to fence the last producer (as in Kafka)."""


@dataclass(frozen=True, kw_only=True)
class TransactionMetadata:
    """A transactional id: its producer, and its current or last transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: TransactionState = TransactionState.EMPTY
    timeout_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NOT_STARTED
    updated_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change of epoch or id."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after this transaction, if the epochs of the current id are exhausted."""
    last_epoch: int = NO_EPOCH
    """The previous epoch, if its owner requested the bump. Not in the log."""
    client_version: int = 0
    """The transactions version of the client's last request; 2: KIP-890."""

    @property
    def is_exhausted(self) -> bool:
        """Whether no epoch is left for a client."""
        return is_exhausted(self.epoch)

    @property
    def bumped(self) -> bool:
        """Whether the last end of a transaction has bumped the epoch."""
        return self.client_version >= FIRST_VERSION_WITH_BUMPS


@dataclass(frozen=True)
class TransactionDeleted:
    """The transactional id is deleted."""

    transactional_id: str


TransactionRecord: TypeAlias = TransactionMetadata | TransactionDeleted


def is_exhausted(epoch: int) -> bool:
    """Whether no client can get an epoch after this one."""
    return epoch >= LAST_EPOCH - 1


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    key = stored.TransactionKey(transactional_id=record.transactional_id)
    key_bytes = encode_key(stored.KEY_VERSION, key, stored.KEY_VERSION)
    if isinstance(record, TransactionDeleted):
        return key_bytes, None
    value = stored.TransactionValue(
        producer_id=record.producer_id,
        previous_producer_id=record.previous_producer_id,
        next_producer_id=record.next_producer_id,
        producer_epoch=record.epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.state.number,
        transaction_partitions=_by_topic(record),
        transaction_last_update_timestamp_ms=record.updated_ms,
        transaction_start_timestamp_ms=record.started_ms,
        client_transaction_version=record.client_version,
    )
    return key_bytes, encode_value(value, stored.VALUE_VERSION)


def _by_topic(record: TransactionMetadata) -> list[stored.TransactionPartitions] | None:
    if record.state is TransactionState.EMPTY:
        return None
    topics: dict[str, stored.TransactionPartitions] = {}
    for name, index in sorted(record.partitions):
        topic = topics.setdefault(name, stored.TransactionPartitions(topic=name))
        topic.partition_ids.append(index)
    return list(topics.values())


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """The record for a key and a value; None for an unknown type."""
    try:
        if version_of(key or b"") != stored.KEY_VERSION:
            return None
        named = decode_key(stored.TransactionKey, key or b"", stored.KEY_VERSION)
        if value is None:
            return TransactionDeleted(named.transactional_id)
        found = decode_value(stored.TransactionValue, value)
        state = TransactionState.numbered(found.transaction_status)
        if state is None:
            raise ProtocolError(f"unknown state {found.transaction_status}")
    except ProtocolError as error:
        raise CorruptData(f"unreadable transaction record {key!r}: {error}") from error
    return TransactionMetadata(
        transactional_id=named.transactional_id,
        producer_id=found.producer_id,
        epoch=found.producer_epoch,
        state=state,
        timeout_ms=found.transaction_timeout_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in found.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        started_ms=found.transaction_start_timestamp_ms,
        updated_ms=found.transaction_last_update_timestamp_ms,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        client_version=found.client_transaction_version,
    )
