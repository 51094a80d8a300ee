"""The commands of the transaction coordinator."""

from dataclasses import dataclass
from typing import TypeAlias

from strom.coordination.transactions.records import NO_EPOCH, NO_PRODUCER_ID
from strom.model.topics import TopicPartition


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
