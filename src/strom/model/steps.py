"""Long work as a generator of small steps, so that an event loop can do other work in between.

The work yields None where it may pause, or an Offload: its result is sent into the generator. What the
generator returns is the result of the work.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Offload(NamedTuple):
    """A function that takes long but releases the interpreter lock, such as decompression.

    It may run on another thread, and must not raise. `large` means that its result needs much memory or
    is needed for long: only few works have such results at a time.
    """

    function: Callable[[], Any]
    large: bool = False

    def __call__(self) -> Any:
        return self.function()


Steps: TypeAlias = Generator[Offload | None, Any, T]
PausingSteps: TypeAlias = Generator[None, None, T]
"""Steps that only pause."""


def run_at_once(steps: Steps[T]) -> T:
    """Do all steps without a pause."""
    try:
        aside = next(steps)
        while True:
            aside = steps.send(aside() if aside is not None else None)
    except StopIteration as done:
        result: T = done.value
        return result
