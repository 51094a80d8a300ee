"""What a coordinator of transactions can be asked to do."""

from dataclasses import dataclass
from typing import TypeAlias

from strom.coordination.transactions.records import NO_EPOCH, NO_PRODUCER_ID
from strom.model.topics import TopicPartition


@dataclass(frozen=True, kw_only=True)
class Init:
    """Become the producer of a transactional id: whoever was it before is out."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """Whom the caller believes to be, if it wants to go on after an error; else nobody."""
    epoch: int = NO_EPOCH
    fresh_producer_id: int | None = None
    """An id that nobody has, should one be needed (`TransactionCoordinator.needs_producer_id`)."""

    @property
    def goes_on(self) -> bool:
        """Whether the caller says who it was before."""
        return self.producer_id != NO_PRODUCER_ID


@dataclass(frozen=True, kw_only=True)
class AddPartitions:
    """Make partitions part of the transaction; it begins with the first ones."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0


@dataclass(frozen=True, kw_only=True)
class End:
    """Commit or abort."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    bumps_epoch: bool
    """Whether the client goes on with a new epoch after every transaction (KIP-890)."""
    fresh_producer_id: int | None = None
    """An id that nobody has, should one be needed (`TransactionCoordinator.needs_producer_id`)."""


Command: TypeAlias = Init | AddPartitions | End
