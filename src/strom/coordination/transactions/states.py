"""The states of a transactional id, and the ways between them."""

from enum import Enum


class TransactionState(Enum):
    """What the transaction of a transactional id is doing; the value is Kafka's name for it."""

    EMPTY = "Empty"
    """A producer has its id and epoch, and has not begun."""
    ONGOING = "Ongoing"
    """Partitions are part of it."""
    PREPARE_COMMIT = "PrepareCommit"
    """It is committed; the markers that say so are being written."""
    PREPARE_ABORT = "PrepareAbort"
    """It is aborted; the markers that say so are being written."""
    COMPLETE_COMMIT = "CompleteCommit"
    """It was committed, and every partition knows."""
    COMPLETE_ABORT = "CompleteAbort"
    """It was aborted, and every partition knows."""

    @property
    def number(self) -> int:
        """Its number in the log."""
        return _NUMBERS[self]

    @property
    def is_ending(self) -> bool:
        """Whether it is decided, but not every partition knows yet."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open."""
        return not self.is_ending and self is not TransactionState.ONGOING

    @classmethod
    def numbered(cls, number: int) -> "TransactionState | None":
        """The state with this number in the log."""
        return _BY_NUMBER.get(number)


_NUMBERS = {state: number for number, state in enumerate(TransactionState)}
_BY_NUMBER = {number: state for state, number in _NUMBERS.items()}

LEGAL: dict[TransactionState, frozenset[TransactionState]] = {
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
"""From where to where. An abort without a transaction only moves the epoch on."""
