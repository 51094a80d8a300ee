"""What comes of a command: records to write, answers to give, markers to write.

The order is the whole of exactly once: the records must be safe on disk before the first marker is
written, and all markers safe before the transaction is called complete.
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
class Answered:
    """Whether it went well, and who the producer is from now on."""

    code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH

    def failed(self, code: ErrorCode) -> Self:
        """The same answer, had the records not been written."""
        return dataclasses.replace(self, code=code, producer_id=NO_PRODUCER_ID, epoch=NO_EPOCH)


@dataclass(frozen=True, kw_only=True)
class Markers:
    """Every one of these partitions has to be told how the transaction ended."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]


@dataclass
class Outcome:
    """Collects what one command brings about for one transactional id."""

    transactional_id: str
    records: list[TransactionRecord] = field(default_factory=list)
    answers: list[tuple[Ticket, Answered]] = field(default_factory=list)
    markers: Markers | None = None
    """To be written once the records are safe."""
    is_decided: bool = False
    """Whether the answers tell only what is safe already, so that they need not wait for the disk."""
