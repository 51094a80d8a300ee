"""Metrics as text, in slices."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from strom.metrics.exposition import (
    LABEL_CHARACTERS_PER_SLICE,
    SAMPLES_PER_SLICE,
    STEPS_PER_SLICE,
    MetricsRegistry,
)
from strom.metrics.instruments import HistogramCounts
from strom.metrics.storage import LogCollector, PartitionReading
from strom.metrics.tables import (
    MetricsSnapshot,
    MetricTable,
    TableCollector,
    counter,
    gauge,
    histogram,
)

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
TABLE = MetricTable(
    ("request",),
    (counter("bytes", "Bytes."), gauge("open", "Open."), histogram("seconds", "Time.")),
)


def registry() -> MetricsRegistry:
    seconds = HistogramCounts((0.1, 1.0))
    seconds.observe(0.5)
    return MetricsRegistry(
        [TableCollector({TABLE: lambda: [('a "quoted"\n\\ name', 3, 2.5, seconds.read())]})]
    )


def samples(text: str, parse=text_string_to_metric_families) -> dict[Any, float]:
    return {
        (one.name, *sorted(one.labels.items())): one.value
        for family in parse(text)
        for one in family.samples
    }


@pytest.mark.parametrize(
    ("accept", "parse"),
    [
        ("", text_string_to_metric_families),
        ("text/plain;version=0.0.4", text_string_to_metric_families),
        (OPENMETRICS, openmetrics.text_string_to_metric_families),
    ],
)
def test_both_formats_say_the_same(accept, parse):
    body, content_type = registry().render(accept)
    assert content_type.startswith(accept.split(";")[0] or "text/plain")
    found = samples(body.decode(), parse)
    label = ("request", 'a "quoted"\n\\ name')
    assert found["bytes_total", label] == 3
    assert found["open", label] == 2.5
    assert found["seconds_bucket", ("le", "0.1"), label] == 0
    assert found["seconds_bucket", ("le", "+Inf"), label] == 1
    assert found["seconds_sum", label] == 0.5


def test_a_metric_without_rows_is_described():
    body, _ = MetricsRegistry([TableCollector({TABLE: list})]).render()
    assert "# TYPE bytes_total counter" in body.decode()


def test_a_value_that_does_not_exist_has_no_sample():
    table = MetricTable((), (gauge("there", ""), gauge("missing", "")))
    body, _ = MetricsRegistry([TableCollector({table: lambda: [(1, float("nan"))]})]).render()
    assert ("there",) in samples(body.decode())
    assert ("missing",) not in samples(body.decode())


def test_every_process_exposes_its_version_and_its_memory():
    found = samples(MetricsRegistry([]).render()[0].decode())
    names = {key[0] for key in found}
    assert {"strom_build_info", "strom_start_time_seconds", "python_info"} <= names


def readings(topics: int) -> Iterator[PartitionReading]:
    for one in range(topics):
        yield PartitionReading(f"t{one}", 0, 1, 2, 3, one, 1, 0, 5, 0, is_offline=False)


def test_ten_thousand_topics_are_read_and_rendered_in_many_slices_and_bounded_series():
    taken: list[None] = []

    def counted() -> Iterator[PartitionReading]:
        for reading in readings(10_000):
            taken.append(None)
            yield reading

    work = MetricsRegistry([LogCollector(counted)], max_label_values=100).slices()
    slices, before, most, body = 0, 0, 0, ""
    while True:
        try:
            next(work)
        except StopIteration as done:
            body = done.value[0].decode()
            break
        slices += 1
        most, before = max(most, len(taken) - before), len(taken)
    assert most <= STEPS_PER_SLICE
    found = samples(body)
    assert len([key for key in found if key[0] == "strom_topic_log_bytes"]) == 101
    assert found["strom_topic_bytes_in_total", ("topic", "_other")] == 9_900
    assert found["strom_log_partitions",] == 10_000
    lines = len(body.splitlines())
    assert slices >= 10_000 // STEPS_PER_SLICE + lines // (2 * SAMPLES_PER_SLICE)


def test_long_labels_end_a_slice_sooner():
    label = "\n" * 5_000
    table = MetricTable(("label",), (gauge("open", "Open."), gauge("closed", "Closed.")))
    rows = [(f"{label}{number}", 1, 2) for number in range(50)]
    metrics = MetricsRegistry([TableCollector({table: lambda: rows})])
    slices = sum(1 for _ in metrics.slices())
    assert slices > 2 * 50 * len(label) // LABEL_CHARACTERS_PER_SLICE
    found = samples(metrics.render()[0].decode())
    assert sum(key[0] == "open" for key in found) == 50


def test_other_work_runs_between_the_slices_of_a_scrape():
    async def run() -> int:
        turns = 0
        scrape = asyncio.ensure_future(
            MetricsRegistry([LogCollector(lambda: readings(5_000))]).scrape()
        )
        while not scrape.done():
            turns += 1
            await asyncio.sleep(0)
        body, content_type = scrape.result()
        assert content_type.startswith("text/plain; version=0.0.4")
        assert b"strom_topic_log_bytes" in body
        return turns

    assert asyncio.run(run()) > 5_000 // STEPS_PER_SLICE


def test_the_garbage_collector_need_not_track_what_a_scrape_collects():
    """Else many rows make it go through every object of the process, which stops the event loop."""
    snapshot, collector = MetricsSnapshot(), LogCollector(lambda: readings(10))
    snapshot.declare(*collector.tables)
    for _ in collector.collect(snapshot):
        pass
    gc.collect()  # tuples in a row first, then the row
    gc.collect()
    rows = [row for rows in snapshot.rows.values() for row in rows]
    assert len(rows) == 21
    assert not any(map(gc.is_tracked, rows))


def test_two_scrapes_at_once_are_rendered_one_after_the_other():
    async def run() -> None:
        metrics = registry()
        one, two = await asyncio.gather(metrics.scrape(), metrics.scrape(OPENMETRICS))
        assert one != two
        assert two[0].endswith(b"# EOF\n")

    asyncio.run(run())
