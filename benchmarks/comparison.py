"""From figures to ratios, and from ratios to verdicts: what strom set out to reach, in one place."""

import statistics
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.peers import KAFKA, KAFKA_SYNCED, STROM_DISK, STROM_OS
from benchmarks.results import Run


class Metric(NamedTuple):
    """Something that is measured."""

    title: str
    unit: str
    more_is_better: bool


METRICS: Mapping[str, Metric] = {
    "produce": Metric("produce", "records/s", True),
    "consume": Metric("consume", "records/s", True),
    "produce_cpu": Metric("produce, broker CPU", "s per million records", False),
    "consume_cpu": Metric("consume, broker CPU", "s per million records", False),
    "requests": Metric("requests", "requests/s", True),
    "request_cpu": Metric("broker CPU", "s per million requests", False),
    "p50": Metric("p50", "ms", False),
    "p99": Metric("p99", "ms", False),
    "startup": Metric("start-up", "s", False),
    "resident": Metric("resident memory", "MB", False),
    "commits": Metric("commits", "commits/s", True),
    "commit_cpu": Metric("broker CPU", "s per million commits", False),
    "join": Metric("all stable after one joined", "ms", False),
    "leave": Metric("all stable after one left", "ms", False),
    "fetch_p50": Metric("fetch at a random offset, p50", "ms", False),
}


class Comparison(NamedTuple):
    """strom in one setting beside Kafka in one setting."""

    key: str
    title: str
    strom: str
    kafka: str


SAME_PROMISE = Comparison(
    "os", "strom with flush=os beside Kafka's default", STROM_OS.key, KAFKA.key
)
DURABLE = Comparison(
    "durable", "strom's durable default beside Kafka's default", STROM_DISK.key, KAFKA.key
)
BOTH_DURABLE = Comparison(
    "synced",
    "strom's durable default beside Kafka with flush.messages=1",
    STROM_DISK.key,
    KAFKA_SYNCED.key,
)
COMPARISONS = (SAME_PROMISE, DURABLE, BOTH_DURABLE)


MEMORY_IDLE = "just started"
"""The case of the memory measurement that has no target: what counts is memory at work."""


class Target(NamedTuple):
    """A bound for a ratio strom / Kafka."""

    bound: float
    at_least: bool

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"

    def is_met(self, ratio: float) -> bool:
        """Whether a ratio keeps to the bound; it is rounded as it is shown."""
        shown = round(ratio, 2)
        return shown >= self.bound if self.at_least else shown <= self.bound


AT_LEAST_KAFKA = Target(1.0, at_least=True)
EIGHTFOLD = Target(8.0, at_least=True)
HALF = Target(0.5, at_least=False)
AT_MOST_KAFKA = Target(1.0, at_least=False)
TENTH = Target(0.1, at_least=False)
FLAT_RATE = Target(0.9, at_least=True)
FLAT_COST = Target(1.1, at_least=False)


def target(metric: str, case: str, comparison: Comparison) -> Target | None:
    """What is to be reached, None where nothing was set.

    Latency, rebalances and the rate of single requests are judged between equal promises only: a
    broker that waits for the disk cannot answer as soon as one that does not.
    """
    if metric in ("produce", "consume"):
        return AT_LEAST_KAFKA
    if metric in ("produce_cpu", "consume_cpu"):
        return None if comparison is BOTH_DURABLE else HALF
    if metric == "startup" or (metric == "resident" and case != MEMORY_IDLE):
        return TENTH
    if metric == "requests" and comparison is not DURABLE and not case.startswith("1 connection"):
        return EIGHTFOLD if comparison is BOTH_DURABLE else AT_LEAST_KAFKA
    if metric in ("join", "leave") and comparison is not DURABLE:
        return AT_MOST_KAFKA
    if metric == "commits" and comparison is not DURABLE:
        return AT_LEAST_KAFKA
    if metric == "p99" and comparison is not DURABLE:
        return HALF if case.startswith("1 connection") else AT_MOST_KAFKA
    return None


class Ratio(NamedTuple):
    """A median of ratios round by round, with the smallest and the largest of them."""

    median: float
    lowest: float
    highest: float


def paired_ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Ratio | None:
    """Ours / theirs in each round that both had: what slows a whole round down cancels out."""
    ratios = [ours[one] / theirs[one] for one in sorted(ours) if theirs.get(one)]
    if not ratios:
        return None
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


class Row(NamedTuple):
    """One line of a table: two medians, their ratio, and whether it is what was wanted."""

    case: str
    metric: Metric
    ours: float
    theirs: float
    ratio: Ratio
    target: Target | None

    @property
    def verdict(self) -> str:
        """In words."""
        return verdict(self.ratio, self.target)


def verdict(ratio: Ratio, wanted: Target | None) -> str:
    """Whether a ratio is what was wanted, in words."""
    if wanted is None:
        return ""
    return "met" if wanted.is_met(ratio.median) else "not met"


def compare(run: Run, area: str, comparison: Comparison) -> list[Row]:
    """The rows of one area for one pair of settings."""
    rows = []
    for case, metric in run.cases(area):
        ours = run.values(area, case, metric, comparison.strom)
        theirs = run.values(area, case, metric, comparison.kafka)
        ratio = paired_ratio(ours, theirs)
        if ratio is not None:
            rows.append(
                Row(
                    case,
                    METRICS[metric],
                    statistics.median(ours.values()),
                    statistics.median(theirs.values()),
                    ratio,
                    target(metric, case, comparison),
                )
            )
    return rows


class Growth(NamedTuple):
    """How a figure changes from a small broker to a large one, for strom and for Kafka."""

    case: str
    metric: Metric
    small: float
    large: float
    ratio: Ratio
    kafka_ratio: Ratio | None
    target: Target | None

    @property
    def verdict(self) -> str:
        """In words."""
        return verdict(self.ratio, self.target)


GROWTH_SMALL = "growth, small"
GROWTH_LARGE = "growth, large"
"""The two areas of the growth measurement; their cases have the same names."""


def growth(run: Run) -> list[Growth]:
    """Large / small, for everything that was measured at both sizes."""
    rows = []
    for case, metric in run.cases(GROWTH_SMALL):
        small = run.values(GROWTH_SMALL, case, metric, STROM_OS.key)
        large = run.values(GROWTH_LARGE, case, metric, STROM_OS.key)
        ratio = paired_ratio(large, small)
        if ratio is not None:
            rows.append(
                Growth(
                    case,
                    METRICS[metric],
                    statistics.median(small.values()),
                    statistics.median(large.values()),
                    ratio,
                    paired_ratio(
                        run.values(GROWTH_LARGE, case, metric, KAFKA.key),
                        run.values(GROWTH_SMALL, case, metric, KAFKA.key),
                    ),
                    _flat(metric),
                )
            )
    return rows


def _flat(metric: str) -> Target | None:
    if metric == "resident":
        return None  # partitions may cost memory; the figure shows that they cost little
    return FLAT_RATE if METRICS[metric].more_is_better else FLAT_COST
