"""A plugin of pytest for `make test`: long tests first, and those of one server on one worker.

xdist gives each worker one part of the list of tests, and workers that run out of tests take the
last ones of others. So each part begins with its long tests, goes on with those that need a server
which takes seconds to start, and ends with the many short ones: at the end all workers finish at
about the same time, and most servers were started by one worker only.
"""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SERVERS = ("spark", "oracle", "rabbitmq", "postgres")
"""What tests need that takes seconds to start: names of fixtures or of markers."""


@dataclass
class Unit:
    """Tests of one module that need the same server: apart they would set up its fixtures twice."""

    server: str | None
    slow: bool = False
    tests: list[int] = field(default_factory=list)

    @property
    def rank(self) -> tuple[bool, int]:
        """Slow units come first; then those of one server follow each other."""
        return not self.slow, SERVERS.index(self.server) if self.server else -1


@pytest.hookimpl(trylast=True)  # after shuffling, grouping by parameter and deselecting
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Arrange the tests that are left for as many workers as there are."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    units: dict[tuple[Path, str | None], Unit] = {}
    for index, item in enumerate(items):
        server = _server(item)
        unit = units.setdefault((item.path, server), Unit(server))
        unit.tests.append(index)
        unit.slow = unit.slow or item.get_closest_marker("slow") is not None
    items[:] = [items[index] for index in arrange(list(units.values()), workers)]


def arrange(units: Sequence[Unit], workers: int) -> list[int]:
    """The tests of all units in an order that xdist cuts into good parts for its workers."""
    begins: list[list[Unit]] = [[] for _ in range(workers)]
    turns = itertools.cycle(begins)
    short: list[int] = []
    for unit in units:
        if unit.server is not None:
            begins[SERVERS.index(unit.server) % workers].append(unit)
        elif unit.slow:
            next(turns).append(unit)
        else:
            short += unit.tests
    left = sum(len(unit.tests) for unit in units)
    arranged: list[int] = []
    for number, begin in enumerate(begins):
        part = [test for unit in sorted(begin, key=lambda one: one.rank) for test in unit.tests]
        room = max(left // (workers - number) - len(part), 0)  # as xdist cuts the list
        part += short[:room]
        del short[:room]
        left -= len(part)
        arranged += part
    return arranged + short


def _server(item: pytest.Item) -> str | None:
    fixtures = getattr(item, "fixturenames", ())
    return next(
        (name for name in SERVERS if name in fixtures or item.get_closest_marker(name)), None
    )
