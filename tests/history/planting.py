"""Changing what a class does, in this process only: for bugs that are planted on purpose."""

import functools
import itertools
import os
from collections.abc import Callable
from typing import Any

from strom.storage.log import Log
from tests.history.workers import TOPIC

PLANTED = "STROM_PLANTED"
"""The environment variable that names what a broker process plants before it starts."""

Plant = Callable[[], None]


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Put a function around a method or a module's function; it gets the original first."""
    original = getattr(owner, name)

    def put(replacement: Callable[..., Any]) -> None:
        @functools.wraps(original)
        def changed(*args: Any, **named: Any) -> Any:
            return replacement(original, *args, **named)

        setattr(owner, name, changed)

    return put


def every(times: int) -> Callable[[], bool]:
    """True once in so many calls, the last of them."""
    turns = itertools.cycle([False] * (times - 1) + [True])
    return lambda: next(turns)


def is_ours(log: Log) -> bool:
    """Whether a log is one of those the workload writes to; the broker's own are left alone."""
    return log.partition.topic == TOPIC


def planted_names() -> list[str]:
    """What this process is to plant."""
    return [name for name in os.environ.get(PLANTED, "").split(",") if name]
