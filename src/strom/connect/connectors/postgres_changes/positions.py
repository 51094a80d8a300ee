"""Positions in the change stream: between transactions, or within one.

The server sends complete transactions in commit order, and can restart only at a commit. So a
position is the end of the last transaction that was delivered completely; for the next one it counts
the delivered changes, and the delivered records of the change after these: a restart skips them.
Changes are counted, because several can have the same LSN (COPY writes such).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from strom.connect.connectors.postgres_changes.pgoutput import Begin, Commit


class Position(NamedTuple):
    """A position in the change stream."""

    lsn: int
    """Everything that was committed before is delivered."""
    commit_lsn: int = 0
    """The transaction that is delivered in part; 0 for none."""
    changes: int = 0
    """How many of its changes are delivered."""
    records: int = 0
    """How many records of its next change are: a delete has two, a changed key three."""

    def to_offset(self) -> dict[str, Any]:
        offset = {"lsn": self.lsn}
        if self.changes or self.records:
            offset |= {"commit_lsn": self.commit_lsn, "changes": self.changes}
        if self.records:
            offset["records"] = self.records
        return offset

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> Self:
        return cls(
            int(offset["lsn"]),
            int(offset.get("commit_lsn", 0)),
            int(offset.get("changes", 0)),
            int(offset.get("records", 0)),
        )


class StreamProgress:
    """Follows the events of the stream, to give each record its position."""

    def __init__(self, position: Position) -> None:
        self._resumed = position
        self._lsn = position.lsn
        self.transaction: Begin | None = None
        self._seen = 0
        self.skipped = 0
        """How many records of the current change were delivered before a restart."""

    def begin(self, event: Begin) -> None:
        self.transaction = event
        self._seen = 0

    def change(self) -> bool:
        """Count a change; returns whether it has records that were not delivered before a restart."""
        if self.transaction is None:
            raise ValueError("a change outside of a transaction")
        self._seen += 1
        self.skipped = 0
        if self.transaction.commit_lsn != self._resumed.commit_lsn:
            return True
        if self._seen == self._resumed.changes + 1:
            self.skipped = self._resumed.records
        return self._seen > self._resumed.changes

    def after(self, record: int, *, is_last: bool) -> Position:
        """The position after this record of the current change."""
        commit_lsn = 0 if self.transaction is None else self.transaction.commit_lsn
        if is_last:
            return Position(self._lsn, commit_lsn, self._seen)
        return Position(self._lsn, commit_lsn, self._seen - 1, record)

    def commit(self, event: Commit) -> Position:
        """End the transaction, and return the position after it."""
        self.transaction = None
        self._lsn = event.end_lsn
        return Position(event.end_lsn)

    def is_between_transactions(self, lsn: int) -> bool:
        """Whether all transactions up to here were received, including one that was resumed.

        Never before the position: a server that decodes its WAL again from the slot's `restart_lsn`
        reports positions that are behind what was delivered.
        """
        return self.transaction is None and lsn > self._resumed.commit_lsn and lsn >= self._lsn

    def advance(self, lsn: int) -> None:
        """Move to a position before which nothing is left to deliver; only between transactions."""
        self._lsn = max(self._lsn, lsn)
