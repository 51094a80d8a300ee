"""The operations of clients, of which a history consists.

An operation has a start, an end and an outcome. Its steps are what happened within: a poll has one step
for each record that it returned, a transaction has everything between begin and commit. **Several steps
in one operation with sends are one transaction**; other sends are operations of their own.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Key: TypeAlias = str
"""A partition, as in `clicks-0`."""
Value: TypeAlias = str | int
"""The content of a record, unique within its key."""

NEVER = 1 << 63
"""The end of an operation whose end was not observed."""


class Outcome(enum.Enum):
    """Whether an operation took effect."""

    OK = "ok"
    """It took effect."""
    FAILED = "failed"
    """It took no effect and never will: rejected, or an aborted transaction."""
    UNKNOWN = "unknown"
    """It may have taken effect, or still may: a timeout, a lost connection, a killed client."""


class Send(NamedTuple):
    """A record was sent; its offset if the broker returned it."""

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
    """A group's committed offset was fetched; None if there was none."""

    group: str
    key: Key
    offset: int | None


class Owns(NamedTuple):
    """A member was assigned a key in a generation of its group."""

    group: str
    generation: int
    key: Key


Step: TypeAlias = Send | Read | Commit | OffsetFetch | Owns


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a client.

    `process` is a sequential client; after an unknown outcome or a restart it needs a new name. `began`
    and `ended` are times on one clock, or positions in a list.
    """

    process: str
    steps: tuple[Step, ...]
    outcome: Outcome = Outcome.OK
    began: int = 0
    ended: int = NEVER
    moved: frozenset[Key] = frozenset()
    """The keys in which the consumer's position was changed by an assignment, a revocation or a seek."""

    @property
    def sends(self) -> Iterable[Send]:
        """The records that it sent."""
        return (step for step in self.steps if isinstance(step, Send))

    @property
    def reads(self) -> Iterable[Read]:
        """The records that it returned."""
        return (step for step in self.steps if isinstance(step, Read))

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.steps[:_SHOWN_STEPS]))
        if len(self.steps) > _SHOWN_STEPS:
            shown += f", … ({len(self.steps)} steps)"
        ended = "?" if self.ended == NEVER else self.ended
        return f"{self.process} {self.outcome.value} [{self.began}–{ended}]: {shown or 'moved'}"


_SHOWN_STEPS = 6
