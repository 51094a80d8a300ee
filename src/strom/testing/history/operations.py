"""What clients did and saw: the words in which a history is told.

An operation is one thing that a client did, with the time at which it began and ended and with what
came of it. Its steps are what happened inside: a poll has one step for each record that it returned, a
transaction has everything between begin and commit. **Several steps in one operation that sends are one
transaction**; what is not one is told as several operations.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Key: TypeAlias = str
"""Names a partition, as in `clicks-0`."""
Value: TypeAlias = str | int
"""What a record holds: no two records of a key are meant to hold the same."""

NEVER = 1 << 63
"""When an operation ended that nobody saw the end of."""


class Outcome(enum.Enum):
    """What came of an operation."""

    OK = "ok"
    """It happened."""
    FAILED = "failed"
    """It did not happen and never will: refused, or a transaction that was aborted."""
    UNKNOWN = "unknown"
    """It may have happened, or may yet: a timeout, a lost connection, a client that died."""


class Send(NamedTuple):
    """A record was sent; its offset if the broker told it."""

    key: Key
    value: Value
    offset: int | None = None


class Read(NamedTuple):
    """A record was returned by a poll."""

    key: Key
    offset: int
    value: Value


class Commit(NamedTuple):
    """A group's offset was committed."""

    group: str
    key: Key
    offset: int


class OffsetFetch(NamedTuple):
    """A group's committed offset was asked for; None if the broker knew of none."""

    group: str
    key: Key
    offset: int | None


class Owns(NamedTuple):
    """A member was given a key in a generation of its group."""

    group: str
    generation: int
    key: Key


Step: TypeAlias = Send | Read | Commit | OffsetFetch | Owns


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that a client did.

    `process` is a client that does one thing after the other; after an unknown outcome or a restart it
    should go by a new name. `began` and `ended` are times on any one clock, or just places in a list.
    """

    process: str
    steps: tuple[Step, ...]
    outcome: Outcome = Outcome.OK
    began: int = 0
    ended: int = NEVER
    moved: frozenset[Key] = frozenset()
    """Where the consumer did not read on from where it was: assigned, taken away, or sought anew."""

    @property
    def sends(self) -> Iterable[Send]:
        """The records that it sent."""
        return (step for step in self.steps if isinstance(step, Send))

    @property
    def reads(self) -> Iterable[Read]:
        """The records that it saw."""
        return (step for step in self.steps if isinstance(step, Read))

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.steps[:_SHOWN_STEPS]))
        if len(self.steps) > _SHOWN_STEPS:
            shown += f", … ({len(self.steps)} steps)"
        ended = "?" if self.ended == NEVER else self.ended
        return f"{self.process} {self.outcome.value} [{self.began}–{ended}]: {shown or 'moved'}"


_SHOWN_STEPS = 6
