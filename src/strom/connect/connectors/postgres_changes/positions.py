"""How far the change stream was delivered: between transactions, or inside of one.

The server sends whole transactions, in the order of their commits, from any commit on. So a position
is the end of the last transaction that was delivered wholly, and for the one after it how many of
its changes were delivered too: after a restart these are skipped.
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

    def to_offset(self) -> dict[str, Any]:
        """As a source offset."""
        if not self.changes:
            return {"lsn": self.lsn}
        return {"lsn": self.lsn, "commit_lsn": self.commit_lsn, "changes": self.changes}

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> Self:
        """From a source offset."""
        return cls(
            int(offset["lsn"]), int(offset.get("commit_lsn", 0)), int(offset.get("changes", 0))
        )


class Progress:
    """Follows the events of the stream, and tells each change's position."""

    def __init__(self, position: Position) -> None:
        self.position = position
        """After everything that was seen so far."""
        self._resumed = position
        self.transaction: Begin | None = None
        self._seen = 0

    def begin(self, event: Begin) -> None:
        """A transaction begins."""
        self.transaction = event
        self._seen = 0

    def change(self) -> bool:
        """A change came; whether it is new, or was delivered before a restart."""
        if self.transaction is None:
            raise ValueError("a change outside of a transaction")
        self._seen += 1
        commit_lsn = self.transaction.commit_lsn
        if commit_lsn == self._resumed.commit_lsn and self._seen <= self._resumed.changes:
            return False
        self.position = Position(self.position.lsn, commit_lsn, self._seen)
        return True

    def commit(self, event: Commit) -> Position:
        """A transaction is whole: everything up to its end is done."""
        self.transaction = None
        self.position = Position(event.end_lsn)
        return self.position
