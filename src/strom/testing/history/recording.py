"""Recording a history while it happens, from any number of threads, as lines of text.

Each operation writes a line when it begins and one when it ends, so that the operations of a killed
client are known. Lines of several processes may be concatenated if all use one clock, such as
`time.monotonic_ns`.
"""

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from strom.testing.history.operations import (
    NEVER,
    Commit,
    Key,
    OffsetFetch,
    Operation,
    Outcome,
    Owns,
    Read,
    Send,
    Step,
)

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
