"""The operations of clients, of which a history consists, and recording them while they happen.

An operation has a start, an end and an outcome. Its steps are what happened within: a poll has one step
for each record that it returned, a transaction has everything between begin and commit. **Several steps
in one operation with sends are one transaction**; other sends are operations of their own.

Any number of threads record. Each operation writes a line when it begins and one when it ends, so that
the operations of a killed client are known. Lines of several processes may be concatenated if all use
one clock, such as `time.monotonic_ns`.
"""

import enum
import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

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


_STEPS: dict[str, type[Any]] = {
    "send": Send,
    "read": Read,
    "commit": Commit,
    "told": OffsetFetch,
    "owns": Owns,
}
_NAMES = {kind: name for name, kind in _STEPS.items()}


class Running:
    """An operation that has begun; until it ends, its outcome is unknown."""

    def __init__(self, recorder: "Recorder", name: str, begun: Operation) -> None:
        self.operation = begun
        self._recorder = recorder
        self._name = name

    def add(self, *steps: Step) -> None:
        """Record steps before the end, in case the client is killed."""
        self.operation = replace(self.operation, steps=(*self.operation.steps, *steps))
        self._recorder.note_steps(self._name, steps)

    def end(
        self,
        outcome: Outcome,
        steps: Iterable[Step] | None = None,
        *,
        moved: Iterable[Key] = (),
    ) -> None:
        """End the operation; `steps` if more is known of them than at its start."""
        final_steps = self.operation.steps if steps is None else tuple(steps)
        self.operation = replace(
            self.operation,
            outcome=outcome,
            steps=final_steps,
            # An operation of unknown outcome may still take effect.
            ended=NEVER if outcome is Outcome.UNKNOWN else self._recorder.now(),
            moved=frozenset(moved),
        )
        self._recorder.note_end(self._name, self.operation)


class Recorder:
    """Collects operations; `write` is called with each line."""

    def __init__(
        self,
        *,
        now: Callable[[], int] | None = None,
        write: Callable[[str], object] | None = None,
    ) -> None:
        self.now = now or itertools.count().__next__
        """Without a clock, positions in the history serve as times."""
        self._write = write
        self._running: list[Running] = []
        self._numbers = itertools.count()

    def begin(self, process: str, *steps: Step) -> Running:
        """Begin an operation; name its sends now, in case it never ends."""
        begun = Operation(process, steps, Outcome.UNKNOWN, self.now())
        name = f"{process}/{next(self._numbers)}"
        if self._write is not None:
            line = {"op": name, "process": process, "began": begun.began, **_encode(steps)}
            self._write(json.dumps(line))
        running = Running(self, name, begun)
        self._running.append(running)
        return running

    def note(
        self, process: str, *steps: Step, outcome: Outcome = Outcome.OK, moved: Iterable[Key] = ()
    ) -> None:
        """Record an operation that has already ended."""
        self.begin(process, *steps).end(outcome, moved=moved)

    def note_steps(self, name: str, steps: Iterable[Step]) -> None:
        """For Running: write a line with steps of an operation that goes on."""
        if self._write is not None:
            self._write(json.dumps({"op": name, **_encode(steps)}))

    def note_end(self, name: str, operation: Operation) -> None:
        """For Running: write the line that ends an operation."""
        if self._write is not None:
            line: dict[str, Any] = {"op": name, "outcome": operation.outcome.value}
            line |= {"ended": operation.ended, **_encode(operation.steps)}
            if operation.moved:
                line["moved"] = sorted(operation.moved)
            self._write(json.dumps(line))

    def history(self) -> list[Operation]:
        """All operations so far; those that have not ended have an unknown outcome."""
        return [running.operation for running in self._running]


def read_lines(lines: Iterable[str]) -> list[Operation]:
    """A history from the lines of one or more recorders; a partial line of a killed client is skipped."""
    operations: dict[str, Operation] = {}
    for line in lines:
        try:
            fields = json.loads(line)
        except ValueError:
            continue
        name = fields["op"]
        steps = tuple(_STEPS[kind](*rest) for kind, *rest in fields["steps"])
        if "began" in fields:
            begun = Operation(fields["process"], steps, Outcome.UNKNOWN, fields["began"])
            operations[name] = begun
        elif "outcome" in fields:
            operations[name] = replace(
                operations[name],
                steps=steps,
                outcome=Outcome(fields["outcome"]),
                ended=fields["ended"],
                moved=frozenset(fields.get("moved", ())),
            )
        else:
            operations[name] = replace(operations[name], steps=operations[name].steps + steps)
    return list(operations.values())


def _encode(steps: Iterable[Step]) -> dict[str, list[list[Any]]]:
    return {"steps": [[_NAMES[type(step)], *step] for step in steps]}
