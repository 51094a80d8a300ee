"""Long work as a generator of small steps, so that an event loop can do other work in between.

The work yields None where it may pause, or a function that takes long but releases the interpreter lock
(such as decompression): that may run on another thread, and its result is sent into the generator; it
must not raise. What the generator returns is the result of the work.
"""

from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

Offload: TypeAlias = Callable[[], Any]
Steps: TypeAlias = Generator[Offload | None, Any, T]

SLICE_SECONDS = 0.003
"""How long work occupies the event loop at a time."""


class Ended(NamedTuple, Generic[T]):
    """The work is done."""

    result: T


def run_slice(steps: Steps[T], sent: Any = None) -> Ended[T] | Offload | None:
    """Do steps until the slice is over (None), the work is done, or a function is to be run aside.

    `sent` is the result of that function, for the next call. At least one step is done.
    """
    until = perf_counter() + SLICE_SECONDS
    try:
        aside = steps.send(sent)
        while aside is None and perf_counter() < until:
            aside = next(steps)
    except StopIteration as done:
        return Ended(done.value)
    return aside


def run_at_once(steps: Steps[T]) -> T:
    """Do all steps without a pause."""
    try:
        aside = next(steps)
        while True:
            aside = steps.send(aside() if aside is not None else None)
    except StopIteration as done:
        result: T = done.value
        return result
