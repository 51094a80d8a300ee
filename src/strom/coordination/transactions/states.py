"""The states of a transactional id, and the transitions between them."""

from enum import Enum


class TransactionState(Enum):
    """The state of a transaction; the value is Kafka's name."""

    EMPTY = "Empty"
    """The producer has its id and epoch, and no transaction yet."""
    ONGOING = "Ongoing"
    """It has partitions."""
    PREPARE_COMMIT = "PrepareCommit"
    """It is committed; the markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    """It is aborted; the markers are being written."""
    COMPLETE_COMMIT = "CompleteCommit"
    """It is committed, and all markers are durable."""
    COMPLETE_ABORT = "CompleteAbort"
    """It is aborted, and all markers are durable."""

    @property
    def number(self) -> int:
        return _NUMBERS[self]

    @property
    def is_ending(self) -> bool:
        """Whether it has ended, but not all markers are durable."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        return not self.is_ending and self is not TransactionState.ONGOING

    @classmethod
    def numbered(cls, number: int) -> "TransactionState | None":
        return _BY_NUMBER.get(number)


_NUMBERS = {state: number for number, state in enumerate(TransactionState)}
_BY_NUMBER = {number: state for state, number in _NUMBERS.items()}

LEGAL_TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT}
    ),
    TransactionState.ONGOING: frozenset(
        {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT}
    ),
    TransactionState.COMPLETE_ABORT: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT}
    ),
}
"""An abort without a transaction only bumps the epoch."""
