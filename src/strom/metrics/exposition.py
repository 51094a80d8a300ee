"""A process's metrics as text: Prometheus' format 0.0.4 or OpenMetrics, as the scraper accepts.

A scrape of 10,000 topics takes some 100 ms. It is done in slices, and the event loop serves clients in
between. A thread would be worse: whenever the loop waits for I/O, it would lose the GIL to that thread
for 5 ms (the switch interval).
"""

import asyncio
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from typing import TypeAlias

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from strom.metrics.instruments import HistogramValue
from strom.metrics.label_cap import LabelCap
from strom.metrics.process import BuildCollector, process_metrics
from strom.metrics.tables import (
    MetricDefinition,
    MetricRow,
    MetricsCollector,
    MetricsSnapshot,
    MetricTable,
)

MAX_LABEL_VALUES = 1000
STEPS_PER_SLICE = 200
"""Steps of collectors per turn of the event loop: about half a millisecond."""
SAMPLES_PER_SLICE = 100
"""Lines of output per turn of the event loop: about half a millisecond, too."""
LABEL_CHARACTERS_PER_SLICE = 20_000
"""Labels of more characters end a slice sooner: escaping them takes long."""

Rendered: TypeAlias = tuple[bytes, str]
"""A body and its content type."""
_END = b"# EOF\n"
"""The last line in OpenMetrics."""


class MetricsRegistry:
    """All metrics of a process."""

    def __init__(
        self, collectors: Iterable[MetricsCollector], max_label_values: int = MAX_LABEL_VALUES
    ) -> None:
        self._collectors: list[MetricsCollector] = [*collectors, BuildCollector()]
        self._limit = max_label_values
        self._caps: dict[MetricTable, LabelCap] = {}
        self._process = process_metrics()
        self._scraping = asyncio.Lock()

    async def scrape(self, accept: str = "") -> Rendered:
        """Render the metrics for an `Accept` header, while the event loop does other work."""
        async with self._scraping:  # concurrent scrapes cost the loop no more than one
            work = self.slices(accept)
            while True:
                try:
                    next(work)
                except StopIteration as done:
                    rendered: Rendered = done.value
                    return rendered
                await asyncio.sleep(0)

    def render(self, accept: str = "") -> Rendered:
        """Render the metrics without an event loop; not while a `scrape` is in flight."""
        work = self.slices(accept)
        while True:
            try:
                next(work)
            except StopIteration as done:
                rendered: Rendered = done.value
                return rendered

    def slices(self, accept: str = "") -> Generator[None, None, Rendered]:
        """The work of a scrape in small steps; the generator returns the result."""
        snapshot = MetricsSnapshot()
        for collector in self._collectors:
            snapshot.declare(*collector.tables)
            for step, _ in enumerate(collector.collect(snapshot), 1):
                if step % STEPS_PER_SLICE == 0:
                    yield
            yield
        encode, content_type = choose_encoder(accept)
        body: list[bytes] = []
        for table, rows in snapshot.rows.items():
            if table.ranked_by is not None:
                rows = yield from self._cap(table).apply(rows)
            for at, metric in enumerate(table.metrics):
                for chunk in _encoded(table, metric, at, rows, encode):
                    body.append(chunk)
                    yield
        body.append(encode(self._process).removesuffix(_END))
        if encode(_Family(())).endswith(_END):
            body.append(_END)
        return b"".join(body), content_type

    def _cap(self, table: MetricTable) -> LabelCap:
        cap = self._caps.get(table)
        if cap is None:
            cap = self._caps[table] = LabelCap(table, self._limit)
        return cap


class _Family:
    """The registry interface that the encoders of prometheus-client expect."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        return self._metrics


def _encoded(
    table: MetricTable,
    metric: MetricDefinition,
    at: int,
    rows: Sequence[MetricRow],
    encode: Callable[[_Family], bytes],
) -> Iterator[bytes]:
    """One metric as text: its description, then its samples in chunks."""
    head = encode(_Family([_family(table, metric, at, ())])).removesuffix(_END)
    yield head
    wide = len(rows[0][1][at].buckets) + 2 if rows and metric.kind == "histogram" else 1  # type: ignore[union-attr]
    size = max(1, SAMPLES_PER_SLICE // wide)
    for some in _chunks(rows, size, LABEL_CHARACTERS_PER_SLICE // wide):
        family = _family(table, metric, at, some)
        yield encode(_Family([family])).removesuffix(_END)[len(head) :]


def _chunks(rows: Sequence[MetricRow], most: int, characters: int) -> Iterator[Sequence[MetricRow]]:
    """The rows in chunks of at most so many, and about so many characters of labels."""
    start = held = 0
    for at, (labels, _) in enumerate(rows):
        size = sum(map(len, labels))
        if at > start and (at - start == most or held + size > characters):
            yield rows[start:at]
            start, held = at, 0
        held += size
    if start < len(rows):
        yield rows[start:]


def _family(
    table: MetricTable, metric: MetricDefinition, at: int, rows: Sequence[MetricRow]
) -> Metric:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.doc, labels=table.labels)
        for labels, values in rows:
            value = values[at]
            assert isinstance(value, HistogramValue)  # noqa: S101 - as the table declares
            buckets = [
                ("+Inf" if bound == float("inf") else repr(bound), n) for bound, n in value[0]
            ]
            histogram.add_metric(labels, buckets, value.sum)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.doc, labels=table.labels)
    for labels, values in rows:
        value = values[at]
        assert not isinstance(value, HistogramValue)  # noqa: S101 - as the table declares
        if value == value:  # NaN: this row has no such value
            family.add_metric(labels, value)
    return family
