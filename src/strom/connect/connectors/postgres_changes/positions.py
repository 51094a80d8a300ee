"""How far the change stream was delivered: between transactions, or inside of one.

The server sends whole transactions, in the order of their commits, from any commit on. So a position
is the end of the last transaction that was delivered wholly, and for the one after it how many of
its changes were delivered too, and how many records of the change after these: after a restart they
are skipped. Changes are counted, because several can have the same LSN (COPY writes such).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from strom.connect.connectors.postgres_changes.pgoutput import Begin, Commit


class Position(NamedTuple):
    """A place in the change stream."""

    lsn: int
    """Everything that was committed before is delivered."""
    commit_lsn: int = 0
    """The transaction of which a part is delivered; 0 for none."""
    changes: int = 0
    """How many of its changes."""
    records: int = 0
    """How many records of the next of its changes: a delete has two, a new key three."""

    def to_offset(self) -> dict[str, Any]:
        """As a source offset."""
        offset = {"lsn": self.lsn}
        if self.changes or self.records:
            offset |= {"commit_lsn": self.commit_lsn, "changes": self.changes}
        if self.records:
            offset["records"] = self.records
        return offset

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> Self:
        """From a source offset."""
        return cls(
            int(offset["lsn"]),
            int(offset.get("commit_lsn", 0)),
            int(offset.get("changes", 0)),
            int(offset.get("records", 0)),
        )


class Progress:
    """Follows the events of the stream, and gives each record its position."""

    def __init__(self, position: Position) -> None:
        self._resumed = position
        self._lsn = position.lsn
        self.transaction: Begin | None = None
        self._seen = 0
        self.skipped = 0
        """How many records of the change were delivered before a restart."""

    def begin(self, event: Begin) -> None:
        """A transaction begins."""
        self.transaction = event
        self._seen = 0

    def change(self) -> bool:
        """A change came; whether it has records that were not delivered before a restart."""
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
        """The position behind this record of the change."""
        commit_lsn = 0 if self.transaction is None else self.transaction.commit_lsn
        if is_last:
            return Position(self._lsn, commit_lsn, self._seen)
        return Position(self._lsn, commit_lsn, self._seen - 1, record)

    def commit(self, event: Commit) -> Position:
        """A transaction is whole: everything up to its end is done."""
        self.transaction = None
        self._lsn = event.end_lsn
        return Position(event.end_lsn)

    def is_between_transactions(self, lsn: int) -> bool:
        """Whether all transactions up to here have come wholly, the one resumed inside of too.

        Not before the position: a server that reads its log again from the slot's `restart_lsn`
        reports how far it has got in that, which is behind what was delivered.
        """
        return self.transaction is None and lsn > self._resumed.commit_lsn and lsn >= self._lsn

    def advance(self, lsn: int) -> None:
        """Nothing was committed before this that is not done; between transactions."""
        self._lsn = max(self._lsn, lsn)
