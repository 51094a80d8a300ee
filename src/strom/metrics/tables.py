"""How metrics are declared, and what a scrape collects before it is rendered.

Metrics that are read from the same object form a table: its rows have the same labels, and one value
for each metric. The declarations are the reference (docs/reference/metrics.md) as well.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, cast

from strom.metrics.instruments import HistogramValue

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
MetricValue: TypeAlias = float | HistogramValue


@dataclass(frozen=True)
class MetricDefinition:
    name: str
    """Without the suffix that its kind adds."""
    kind: Kind
    doc: str
    jmx: str = ""
    """Kafka's or Connect's name of the same, where people know one."""

    @property
    def exposed_name(self) -> str:
        """As queries name it; a histogram's samples have suffixes behind it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def counter(name: str, doc: str, jmx: str = "") -> MetricDefinition:
    """A number that only grows; `_total` is added to its name."""
    return MetricDefinition(name, "counter", doc, jmx)


def gauge(name: str, doc: str, jmx: str = "") -> MetricDefinition:
    """A number that goes up and down."""
    return MetricDefinition(name, "gauge", doc, jmx)


def histogram(name: str, doc: str, jmx: str = "") -> MetricDefinition:
    """How values are distributed; `_bucket`, `_sum` and `_count` are added to its name."""
    return MetricDefinition(name, "histogram", doc, jmx)


@dataclass(frozen=True, eq=False)
class MetricTable:
    """Metrics with the same labels."""

    labels: tuple[str, ...]
    metrics: tuple[MetricDefinition, ...]
    ranked_by: int | None = None
    """Where users choose the labels' values: the metric by which the largest rows get their own series.

    None where the values are a small fixed set.
    """

    @property
    def has_counters(self) -> bool:
        """Whether rows must not move between series: a counter that falls is read as a restart."""
        return any(metric.kind == "counter" for metric in self.metrics)


MetricRow: TypeAlias = tuple[tuple[str, ...], Sequence[MetricValue]]
"""One row of a table: its labels' values, and its metrics'.

A plain tuple on purpose: Python's garbage collector stops tracking tuples of numbers and strings, but no
instances of other classes. Tens of thousands of these would have it go through all objects of the
process, which stops a broker with 10,000 topics for 0.2 s.
"""


class MetricsSnapshot:
    """The rows that one scrape has collected."""

    def __init__(self) -> None:
        self.rows: dict[MetricTable, list[MetricRow]] = {}

    def declare(self, *tables: MetricTable) -> None:
        """Have tables described in the output even if they get no rows."""
        for table in tables:
            self.rows.setdefault(table, [])

    def add(
        self, table: MetricTable, labels: tuple[str, ...], values: Sequence[MetricValue]
    ) -> None:
        """Take in one row."""
        self.rows[table].append((labels, values))


class MetricsCollector(Protocol):
    """Reads what one subsystem has counted."""

    tables: tuple[MetricTable, ...]
    """All that it may add rows to."""

    def collect(self, into: MetricsSnapshot) -> Iterator[None]:
        """Add rows, and yield after each small piece of work: there other work may come between.

        So it must not iterate over anything that others change, but over a copy.
        """
        ...


Reading: TypeAlias = tuple[object, ...]
"""A row as its owner gives it: the labels' values, then the metrics', in the order of the table."""


class TableCollector:
    """Collects tables whose rows are read one by one."""

    def __init__(
        self, readers: Mapping[MetricTable, Callable[[], Iterable[Reading | None]]]
    ) -> None:
        """A reader that has much to add up for a row yields None in between."""
        self.tables = tuple(readers)
        self._readers = readers

    def collect(self, into: MetricsSnapshot) -> Iterator[None]:
        for table, read in self._readers.items():
            width = len(table.labels)
            for reading in read():
                if reading is not None:
                    labels = tuple(map(str, reading[:width]))
                    into.add(table, labels, cast("Sequence[MetricValue]", reading[width:]))
                yield
