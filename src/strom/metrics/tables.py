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
    """Without the suffix of its type, such as `_total`."""
    kind: Kind
    doc: str
    jmx: str = ""
    """The JMX name of Kafka's or Connect's equivalent, if there is one."""

    @property
    def exposed_name(self) -> str:
        """The name in queries; the samples of a histogram append further suffixes."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def counter(name: str, doc: str, jmx: str = "") -> MetricDefinition:
    """A number that only increases; `_total` is appended to its name."""
    return MetricDefinition(name, "counter", doc, jmx)


def gauge(name: str, doc: str, jmx: str = "") -> MetricDefinition:
    """A number that increases and decreases."""
    return MetricDefinition(name, "gauge", doc, jmx)


def histogram(name: str, doc: str, jmx: str = "") -> MetricDefinition:
    """A distribution of values; `_bucket`, `_sum` and `_count` are appended to its name."""
    return MetricDefinition(name, "histogram", doc, jmx)


@dataclass(frozen=True, eq=False)
class MetricTable:
    """Metrics with the same labels."""

    labels: tuple[str, ...]
    metrics: tuple[MetricDefinition, ...]
    ranked_by: int | None = None
    """If users choose the labels' values: the metric by which the largest rows get their own series.

    None if the values are a small fixed set.
    """

    @property
    def has_counters(self) -> bool:
        """Whether rows must not move between series: Prometheus takes a falling counter for a reset."""
        return any(metric.kind == "counter" for metric in self.metrics)


MetricRow: TypeAlias = tuple[tuple[str, ...], Sequence[MetricValue]]
"""One row of a table: the values of its labels, and of its metrics.

A plain tuple on purpose: Python's garbage collector untracks tuples of numbers and strings, but not
instances of other classes. Tens of thousands of those would trigger full collections, which stop a
broker with 10,000 topics for 0.2 s.
"""


class MetricsSnapshot:
    """The rows that one scrape has collected."""

    def __init__(self) -> None:
        self.rows: dict[MetricTable, list[MetricRow]] = {}

    def declare(self, *tables: MetricTable) -> None:
        """Describe tables in the output even if they get no rows."""
        for table in tables:
            self.rows.setdefault(table, [])

    def add(
        self, table: MetricTable, labels: tuple[str, ...], values: Sequence[MetricValue]
    ) -> None:
        """Take in one row."""
        self.rows[table].append((labels, values))


class MetricsCollector(Protocol):
    """Reads the counters of one subsystem."""

    tables: tuple[MetricTable, ...]
    """All tables that it may add rows to."""

    def collect(self, into: MetricsSnapshot) -> Iterator[None]:
        """Add rows, and yield after each small piece of work, where the event loop may do other work.

        So it must iterate over copies of collections that may change meanwhile.
        """
        ...


Reading: TypeAlias = tuple[object, ...]
"""A row as its owner provides it: the values of the labels, then of the metrics, in table order."""


class TableCollector:
    """Collects tables whose rows are read one by one."""

    def __init__(
        self, readers: Mapping[MetricTable, Callable[[], Iterable[Reading | None]]]
    ) -> None:
        """A reader with much work for one row yields None in between."""
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
