"""Measures the age of records when they become visible, from observations of the speed layer."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

_MAX_KEPT = 10_000


@dataclass(frozen=True)
class ServedRecords:
    """Records that became visible together, and the range of their ages at that time."""

    records: int
    youngest_s: float
    oldest_s: float


class FreshnessTracker:
    """Estimates ages from two kinds of events: the end of the log grew, and records were published.

    Arrivals between two observations of the end are assumed to be uniform.
    """

    def __init__(self) -> None:
        self._observations: deque[tuple[float, int]] = deque(maxlen=_MAX_KEPT)
        self._served: deque[ServedRecords] = deque(maxlen=_MAX_KEPT)

    def observe_end(self, now: float, end: int) -> None:
        """At `now`, the log has `end` records."""
        self._observations.append((now, end))

    def on_published(self, now: float, start: int, end: int) -> None:
        """At `now`, the records from `start` to `end` became visible."""
        for (before, first), (after, last) in pairwise(self._observations):
            low, high = max(first, start), min(last, end)
            if high > low:
                self._served.append(ServedRecords(high - low, now - after, now - before))
        while len(self._observations) > 1 and self._observations[1][1] <= end:
            self._observations.popleft()

    def quantile(self, share: float, last: int = _MAX_KEPT) -> float:
        """The quantile of the ages of records in the `last` publications when they became visible."""
        served = list(self._served)[-last:]
        total = sum(one.records for one in served)
        if not total:
            return 0.0
        low, high = 0.0, max(one.oldest_s for one in served)
        for _ in range(40):
            middle = (low + high) / 2
            below = sum(one.records * _share_below(one, middle) for one in served)
            low, high = (middle, high) if below < share * total else (low, middle)
        return high

    def reset(self) -> None:
        """Discard all ages, such as after a warm-up."""
        self._served.clear()


def _share_below(one: ServedRecords, age: float) -> float:
    if age >= one.oldest_s:
        return 1.0
    if age <= one.youngest_s:
        return 0.0
    return (age - one.youngest_s) / (one.oldest_s - one.youngest_s)


class Completeness:
    """The time at which each view was last complete: it has reached the log's end as of that time."""

    def __init__(self) -> None:
        self._complete: dict[str, float] = {}
        self._observations: dict[str, deque[tuple[float, int]]] = {}
        """By view, the observations that it has not reached: time and number of records in the log."""

    def observe_end(self, now: float, end: int, lags: Mapping[str, int]) -> None:
        """At `now`, the log has `end` records, and `lags` is the lag of each view."""
        for view, lag in lags.items():
            observations = self._observations.setdefault(view, deque(maxlen=_MAX_KEPT))
            if observations and observations[-1][1] > end:
                observations.clear()  # the topic was recreated
            if not observations or observations[-1][1] != end or not lag:
                observations.append((now, end))
            while observations and observations[0][1] <= end - lag:
                self._complete[view] = observations.popleft()[0]
            self._complete.setdefault(view, now)

    def age_s(self, view: str, now: float) -> float:
        """Seconds since a view was complete; 0 if it was never observed."""
        return now - self._complete.get(view, now)
