"""What every measurement is given: how much to do, and where to report progress."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.scale import Scale

T = TypeVar("T")


@dataclass(frozen=True)
class Session:
    """One run of the benchmark, as a measurement sees it."""

    scale: Scale
    step: Callable[[str], None]
    """Say what comes next; every call is one step of the progress bar."""


def in_turn(things: Sequence[T], round_number: int) -> list[T]:
    """The things in another order each round, so that none always follows the same other one."""
    first = round_number % len(things)
    return [*things[first:], *things[:first]]
