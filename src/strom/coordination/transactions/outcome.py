"""The outcome of a command: records and markers to write, and responses to send.

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
