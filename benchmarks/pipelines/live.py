"""While clicks come: how fresh three views are, how much they can take, and how long queries wait."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from benchmarks.pipelines.figures import Figure
from benchmarks.pipelines.stage import FEW_KEYS, MANY_KEYS, PAGE_MINUTES, SCHEMA, Scale, Stage
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.project import Project
from strom.pipelines.runner import ProjectRunner
from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.settings import ProjectSettings
from strom.supervision.child_process import ChildProcess
from strom.supervision.lifeline import LIFELINE

TOPIC = "live"
QUERIES = {
    "a page's last minutes": "SELECT page, views, mean_ms FROM page_minutes WHERE page = '/cart' "
    "ORDER BY window_start DESC LIMIT 5",
    "the last minute's pages": "SELECT page, views, visitors FROM page_minutes WHERE window_start = "
    "(SELECT max(window_start) FROM page_minutes) ORDER BY views DESC LIMIT 5",
}
_PAUSE_S = 0.05


def measure_live(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Clicks at a steady rate into three views, and queries meanwhile; then as many as can be."""
    with _project(stage) as (runner, server):
        layer = runner.layers[TOPIC]
        _ask_while(_visitors(stage, scale.live_rate, scale.warm_s), server)
        _drain(runner)
        fresh = layer.progress.freshness
        fresh.reset()
        took = _ask_while(_visitors(stage, scale.live_rate, scale.live_s), server)
        _drain(runner)
        at = f"at {scale.live_rate:,} clicks/s"
        yield Figure(f"freshness {at}, p50", fresh.quantile(0.5), "s")
        yield Figure(f"freshness {at}, p99", fresh.quantile(0.99), "s", 3.0, "less")
        for name, times in took.items():
            times.sort()
            asked = f"query {at}: {name}"
            yield Figure(f"{asked}, p50", 1000 * times[len(times) // 2], "ms")
            yield Figure(f"{asked}, p99", 1000 * times[int(len(times) * 0.99)], "ms", 50, "less")
        began, before = time.perf_counter(), layer.progress.records
        _visitors(stage, 0, scale.burst_s).wait()
        _drain(runner)
        served = layer.progress.records - before
        yield Figure(
            "sustained, from produce to servable in three views, archive included",
            served / (time.perf_counter() - began),
            "/s",
            75_000,
        )


@contextmanager
def _project(stage: Stage) -> Iterator[tuple[ProjectRunner, QueryEngine]]:
    stage.kafka.create(TOPIC, 3)
    stream = Stream(TOPIC, schema=SCHEMA, time="at")
    views = {v.name: replace(v, reads=stream) for v in (PAGE_MINUTES, FEW_KEYS, MANY_KEYS)}
    settings = ProjectSettings(name="bench", data="live", servers=stage.kafka.servers)
    project = Project(stage.folder, settings, {TOPIC: stream}, views)
    runner = ProjectRunner(project, stage.spark, stage.kafka)
    runner.prepare()
    runner.start()
    server = QueryEngine(project.manifests)
    try:
        yield runner, server
    finally:
        runner.stop()
        server.close()


def _visitors(stage: Stage, rate: int, seconds: float) -> ChildProcess:
    command = [sys.executable, "-m", "strom.cli.clickstream", stage.kafka.servers, TOPIC]
    visitors = ChildProcess("the visitors", [*command, str(rate), str(seconds), LIFELINE])
    visitors.launch()
    return visitors


def _ask_while(visitors: ChildProcess, server: QueryEngine) -> dict[str, list[float]]:
    """Ask in turns while clicks come; how long each answer took."""
    took: dict[str, list[float]] = {name: [] for name in QUERIES}
    while visitors.is_running:
        for name, sql in QUERIES.items():
            began = time.perf_counter()
            server.query(sql)
            took[name].append(time.perf_counter() - began)
            time.sleep(_PAUSE_S)
    return took


def _drain(runner: ProjectRunner) -> None:
    """Wait until everything that was sent is in the views."""
    layer = runner.layers[TOPIC]
    ends = runner.ends(TOPIC)
    while layer.progress.records < ends:
        if runner.wait(0.05):
            raise RuntimeError("the runner has failed") from runner.failed
