"""The commands of the transaction coordinator, and their outcome: records, markers and responses.

Exactly once depends on the order: the records must be durable before the first marker is written, and all
markers before the transaction is complete. Otherwise a crash could undo a commit that consumers have
seen.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from strom.coordination.transactions.records import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionRecord,
)
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition

Ticket: TypeAlias = Any


@dataclass(frozen=True, kw_only=True)
class TransactionResponse:
    """The error code, and the producer id and epoch from now on."""

    code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH

    def with_error(self, code: ErrorCode) -> Self:
        """The response if the records could not be written."""
        return dataclasses.replace(self, code=code, producer_id=NO_PRODUCER_ID, epoch=NO_EPOCH)


@dataclass(frozen=True, kw_only=True)
class Markers:
    """The markers to write to these partitions."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]


@dataclass
class TransactionOutcome:
    """The effects of one command on one transactional id."""

    transactional_id: str
    records: list[TransactionRecord] = field(default_factory=list)
    responses: list[tuple[Ticket, TransactionResponse]] = field(default_factory=list)
    markers: Markers | None = None
    """To write when the records are durable."""
    is_durable: bool = False
    """Whether the responses depend only on durable state, so that they need not wait for the records."""


@dataclass(frozen=True, kw_only=True)
class InitProducer:
    """Become the producer of a transactional id, and fence the previous one."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """The caller's current producer id, if it recovers from an error (KIP-360)."""
    epoch: int = NO_EPOCH
    new_producer_id: int | None = None
    """An unused id, if one is needed (`TransactionCoordinator.needs_producer_id`)."""

    @property
    def keeps_producer_id(self) -> bool:
        """Whether the caller keeps its producer id (KIP-360)."""
        return self.producer_id != NO_PRODUCER_ID


@dataclass(frozen=True, kw_only=True)
class AddPartitions:
    """Add partitions to the transaction; the first ones begin it."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0


@dataclass(frozen=True, kw_only=True)
class EndTransaction:
    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    bumps_epoch: bool
    """Whether every end bumps the epoch: transactions version 2 (KIP-890)."""
    new_producer_id: int | None = None
    """An unused id, if one is needed (`TransactionCoordinator.needs_producer_id`)."""


TransactionCommand: TypeAlias = InitProducer | AddPartitions | EndTransaction
