"""The readings of a running project for its metrics."""

import time
from collections.abc import Iterator

from strom.metrics.exposition import MetricsRegistry
from strom.metrics.http import HTTP, HttpStats
from strom.metrics.tables import TableCollector
from strom.metrics.views import OUTAGES, STREAMS, VIEWS, StreamReading, ViewReading
from strom.pipelines.layers.speed import SpeedLayer
from strom.pipelines.runner import ProjectRunner
from strom.pipelines.views.manifests import Version

NO_VALUE = float("nan")
LAST_SERVED = 1000
"""The number of micro-batches whose records count for freshness."""


def make_view_metrics(runner: ProjectRunner, requests: HttpStats) -> MetricsRegistry:
    """The metrics of a project's views."""

    def read_views() -> Iterator[ViewReading]:
        aside = runner.set_aside()
        for layer in runner.layers.values():
            for target in layer.all_targets:
                yield _read_view(runner, layer, target.feed.name, target.feed.name in aside)

    def read_streams() -> Iterator[StreamReading]:
        for topic, layer in runner.layers.items():
            done = layer.progress
            yield StreamReading(
                topic,
                done.batches,
                done.total_seconds,
                done.seconds,
                done.records,
                done.dead_letters,
                done.freshness.quantile(0.99, LAST_SERVED),
            )

    def read_outages() -> Iterator[tuple[int]]:
        yield (len(runner.outages),)

    tables = {VIEWS: read_views, STREAMS: read_streams, OUTAGES: read_outages, HTTP: requests.read}
    return MetricsRegistry([TableCollector(tables)])


def _read_view(runner: ProjectRunner, layer: SpeedLayer, name: str, is_aside: bool) -> ViewReading:
    manifest = runner.project.manifests.read(name)
    version = manifest.active_version if manifest else None
    return ViewReading(
        name,
        layer.progress.lags.get(name, NO_VALUE),
        layer.progress.completeness.age_s(name, time.monotonic()),
        len(version.segments) if version else 0,
        _batch_age_s(version) if version else NO_VALUE,
        len(manifest.versions) if manifest else 0,
        len(version.skipped) if version else 0,
        is_aside,
        runner.compactions[name],
    )


def _batch_age_s(version: Version) -> float:
    written = [one.written_ms for one in version.segments if one.layer == "batch"]
    return time.time() - max(written) / 1000 if written else NO_VALUE
