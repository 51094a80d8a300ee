"""How old records are when they can be served, from what the speed layer sees anyway."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

_KEPT = 10_000


@dataclass(frozen=True)
class Served:
    """Records that became visible together, and between which ages they were then."""

    records: int
    youngest_s: float
    oldest_s: float


class Freshness:
    """Looks at the end of the log tell when records came; publishing tells when they could be read.

    Between two looks records are taken to come evenly, the first of them right after the earlier look.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque(maxlen=_KEPT)
        self._served: deque[Served] = deque(maxlen=_KEPT)

    def looked(self, now: float, end: int) -> None:
        """The log ended at so many records."""
        self._looks.append((now, end))

    def published(self, now: float, start: int, end: int) -> None:
        """The records between can be read from now on."""
        for (before, first), (after, last) in pairwise(self._looks):
            low, high = max(first, start), min(last, end)
            if high > low:
                self._served.append(Served(high - low, now - after, now - before))
        while len(self._looks) > 1 and self._looks[1][1] <= end:
            self._looks.popleft()

    def quantile(self, share: float, last: int = _KEPT) -> float:
        """The age that this share of the last records had not passed when they could be read."""
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

    def forget(self) -> None:
        """Begin anew, as after warming up."""
        self._served.clear()


def _share_below(one: Served, age: float) -> float:
    if age >= one.oldest_s:
        return 1.0
    if age <= one.youngest_s:
        return 0.0
    return (age - one.youngest_s) / (one.oldest_s - one.youngest_s)


class Completeness:
    """Up to when each view is complete: the last look at the log's end that it has caught up with."""

    def __init__(self) -> None:
        self._complete: dict[str, float] = {}
        self._looks: dict[str, deque[tuple[float, int]]] = {}
        """Looks that a view has not caught up with: when, and how many records there were."""

    def looked(self, now: float, end: int, lags: Mapping[str, int]) -> None:
        """The log has `end` records, and each view so many fewer."""
        for view, lag in lags.items():
            looks = self._looks.setdefault(view, deque(maxlen=_KEPT))
            if looks and looks[-1][1] > end:
                looks.clear()  # the topic was recreated
            if not looks or looks[-1][1] != end or not lag:
                looks.append((now, end))
            while looks and looks[0][1] <= end - lag:
                self._complete[view] = looks.popleft()[0]
            self._complete.setdefault(view, now)

    def age_s(self, view: str, now: float) -> float:
        """How long ago a view was complete; 0 for one that was never looked at."""
        return now - self._complete.get(view, now)
