"""Bounds the number of series: the largest rows by name, all others in one row `_other`."""

import math
from collections.abc import Generator, Sequence
from heapq import nlargest
from typing import cast

from strom.metrics.tables import MetricRow, MetricTable

OTHER = "_other"
_ROWS_AT_ONCE = 1000


class LabelCap:
    """Chooses which rows of one table get their own series.

    In a table of gauges the largest rows are chosen at each scrape. With counters, a chosen row stays
    chosen as long as it exists, and `_other` never decreases: `rate()` would take that for a reset and
    count everything again.
    """

    def __init__(self, table: MetricTable, limit: int) -> None:
        self._limit = limit
        self._rank = table.ranked_by or 0
        self._is_sticky = table.has_counters
        self._counters = [at for at, one in enumerate(table.metrics) if one.kind == "counter"]
        self._width = len(table.metrics)
        self._other_labels = (OTHER,) * len(table.labels)
        self._named: set[tuple[str, ...]] = set()
        self._others: dict[tuple[str, ...], Sequence[float]] = {}
        """The rows in `_other` at the last scrape, if the table has counters."""
        self._retired = [0.0] * self._width
        """The counts in `_other` of rows that are no longer part of it."""

    def apply(self, rows: list[MetricRow]) -> Generator[None, None, list[MetricRow]]:
        """Return the rows to expose; yields between steps."""
        named, others = yield from self._split(rows)
        if not others and not self._others and not any(self._retired):
            return named
        sums = [0.0] * self._width
        for start in range(0, len(others), _ROWS_AT_ONCE):
            self._add_up(others[start : start + _ROWS_AT_ONCE], sums)
            yield
        # NaN: a row has no such value. If none has, neither has their sum.
        for at in range(self._width):
            if others and all(math.isnan(cast("float", values[at])) for _, values in others):
                sums[at] = math.nan
        if self._is_sticky:
            for left in self._others.values():
                self._retire(left)
            self._others = {labels: cast("Sequence[float]", values) for labels, values in others}
            for at in self._counters:
                sums[at] += self._retired[at]
        return [*named, (self._other_labels, sums)]

    def _split(
        self, rows: list[MetricRow]
    ) -> Generator[None, None, tuple[list[MetricRow], list[MetricRow]]]:
        """The rows that get their own series, and the others."""
        # A topic may be named `_other`: it must not become a second series of that name.
        named = [row for row in rows if row[0] != self._other_labels]
        if len(named) > self._limit:
            yield
            kept = self._named if self._is_sticky else set()
            rest = [row for row in named if row[0] not in kept]
            named = [row for row in named if row[0] in kept]
            yield
            named += nlargest(self._limit - len(named), rest, key=self._size)
            yield
        self._named = {row[0] for row in named}
        return named, [row for row in rows if row[0] not in self._named]

    def _size(self, row: MetricRow) -> float:
        size = cast("float", row[1][self._rank])
        return -math.inf if math.isnan(size) else size

    def _add_up(self, rows: list[MetricRow], sums: list[float]) -> None:
        for labels, counted in rows:
            values = cast("Sequence[float]", counted)
            for at, value in enumerate(values):
                if value == value:  # not NaN
                    sums[at] += value
            before = self._others.pop(labels, None)
            if before is not None and any(values[at] < before[at] for at in self._counters):
                self._retire(before)  # it was deleted and recreated

    def _retire(self, values: Sequence[float]) -> None:
        for at in self._counters:
            self._retired[at] += values[at]
