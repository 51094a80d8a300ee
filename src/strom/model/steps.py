"""Long work as a generator of small steps, so that an event loop can do other work in between.

The work yields None where it may pause, or a function that takes long but releases the interpreter lock
(such as decompression): that may run on another thread, and its result is sent into the generator; it
must not raise. What the generator returns is the result of the work.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Offload: TypeAlias = Callable[[], Any]
Steps: TypeAlias = Generator[Offload | None, Any, T]


def run_at_once(steps: Steps[T]) -> T:
    """Do all steps without a pause."""
    try:
        aside = next(steps)
        while True:
            aside = steps.send(aside() if aside is not None else None)
    except StopIteration as done:
        result: T = done.value
        return result
