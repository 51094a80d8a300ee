"""`strom demo`: compute views of a shop's clicks, live, and verify the results."""

import contextlib
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strom.cli.broker_demo import demonstrate_broker, wait_for_interrupt
from strom.cli.demo_table import live_table, progress_lines
from strom.cli.printing import human_count, notice
from strom.cli.project import check_views_can_run, log_of, opened, spark_of
from strom.cli.project_files import DEFINITIONS
from strom.model.errors import UserError
from strom.supervision.child_process import ChildProcess, StartFailed
from strom.supervision.lifeline import LIFELINE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strom.pipelines.definitions.view import View
    from strom.pipelines.kafka_log import KafkaLog
    from strom.pipelines.project import Project
    from strom.pipelines.runner import ProjectRunner
    from strom.pipelines.serving.queries import QueryEngine

TOPIC = "clicks"
WARM_UP_RATE, WARM_UP_S = 20_000, 4
"""Clicks before the measurement: the first results take Spark much longer than the next ones."""
CHANGED = ('"mean_ms": mean("ms")', '"mean_ms": mean("ms"), "p90_ms": quantile("ms", 0.9)')


@click.command()
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    default=30_000,
    show_default=True,
    help="Clicks per second.",
)
@click.option(
    "--seconds",
    type=click.IntRange(min=5),
    default=10,
    show_default=True,
    help="How long to send them.",
)
@click.option("--keep", is_flag=True, help="Leave everything running until Ctrl-C.")
@click.option(
    "--broker", is_flag=True, help="Only produce to and consume from a broker. Needs no Java."
)
@click.option(
    "-n",
    "--records",
    type=click.IntRange(min=1),
    default=1_000_000,
    help="With --broker: the number of clicks.",
)
def demo(rate: int, seconds: int, keep: bool, broker: bool, records: int) -> None:
    """Watch a shop's clicks become views, live.

    A broker, three views with batch and speed layer, a check against a full recomputation, and
    the replay of a changed view. Everything is removed afterwards. Without Java, it demonstrates
    only the broker.
    """
    if not broker:
        try:
            check_views_can_run()
        except UserError as missing:
            notice(f"{missing}\nUntil then, this demonstrates only the broker:\n")
            broker = True
    if broker:
        demonstrate_broker(records, keep)
        return
    with tempfile.TemporaryDirectory(prefix="strom-demo-", ignore_cleanup_errors=True) as folder:
        _write_project(Path(folder))
        with _running(Path(folder)) as running:
            report = _play(running, rate, seconds)
            click.echo("\n" + "\n".join(report))
            if keep:
                click.echo(
                    f"\nRunning: Kafka at {running.kafka.servers}, the project in {folder}. In another "  # noqa: S608
                    f'terminal:\n  strom query -p {folder} "SELECT * FROM shop"\n\nCtrl-C stops it.'
                )
                wait_for_interrupt()


@dataclass
class RunningDemo:
    """The running project, and the times of the queries so far."""

    project: "Project"
    spark: "SparkSession"
    kafka: "KafkaLog"
    runner: "ProjectRunner"
    server: "QueryEngine"
    query_seconds: list[float] = field(default_factory=list)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query; records how long it took."""
        began = time.perf_counter()
        rows: list[dict[str, Any]] = self.server.query(sql).to_pylist()
        self.query_seconds.append(time.perf_counter() - began)
        return rows


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[RunningDemo]:
    project = opened(folder)
    with contextlib.ExitStack() as running, ThreadPoolExecutor(1) as starter:
        with progress_lines("Starting a broker and Spark"):
            # Spark starts on this thread, which Ctrl-C interrupts, and a broker meanwhile.
            starting = starter.submit(running.enter_context, log_of(project))
            spark = spark_of(project)
            running.callback(spark.stop)
            kafka = starting.result()
        from strom.pipelines.runner import ProjectRunner
        from strom.pipelines.serving.queries import QueryEngine

        server = running.enter_context(contextlib.closing(QueryEngine(project.manifests)))
        runner = ProjectRunner(project, spark, kafka)
        with progress_lines("Compiling three views"):
            runner.prepare()
        running.callback(runner.stop)
        runner.start()
        yield RunningDemo(project, spark, kafka, runner, server)


def _play(running: RunningDemo, rate: int, seconds: int) -> list[str]:
    """Run the four steps; the lines of the report."""
    layer = running.runner.layers[TOPIC]
    fresh = layer.progress.freshness
    with live_table(running.query, layer.progress) as draw:
        click.echo(f"\n1. Warming up Spark with {human_count(WARM_UP_RATE)} clicks/s.")
        warm_up = _sent(running, WARM_UP_RATE, WARM_UP_S, draw)
        _wait(running, lambda: layer.progress.records >= warm_up["sent"], draw)
        fresh.reset()
        click.echo(f"2. Computing three views of {human_count(rate)} clicks/s.")
        batch = _DelayedCall(seconds / 2, lambda: running.runner.batches.batch_now(TOPIC))

        def draw_and_poll() -> None:
            draw()
            batch.poll()

        measured = _sent(running, rate, seconds, draw_and_poll)
        sent = {name: number + warm_up[name] for name, number in measured.items()}
        _wait(running, lambda: layer.progress.records >= sent["sent"], draw_and_poll)
        _wait(running, lambda: batch.is_done, draw_and_poll)
    lines = [
        f"{human_count(sent['sent'])} clicks were sent and are in all views.",
        f"Malformed: {human_count(sent['malformed'])} sent, "
        f"{human_count(layer.progress.dead_letters)} in the dead letters.",
        f"Freshness: p50 {fresh.quantile(0.5):.2f} s, p99 {fresh.quantile(0.99):.2f} s "
        "(from the log to a query's result, at the full rate, after the warm-up).",
        f"Meanwhile, the batch layer published {human_count(batch.result)} records.",
    ]
    with progress_lines("3. Recomputing all views from the first record"):
        lines.append(_compare(running, sent["sent"] - sent["malformed"]))
    with progress_lines("4. Changing one view, and replaying it beside the old version"):
        lines.append(_replay_changed(running))
    times = sorted(running.query_seconds)
    lines.append(
        f"{len(times)} queries while it ran: p50 {times[len(times) // 2] * 1000:.0f} ms, "
        f"p99 {times[int(len(times) * 0.99)] * 1000:.0f} ms."
    )
    return lines


def _sent(
    running: RunningDemo, rate: int, seconds: int, meanwhile: Callable[[], None]
) -> dict[str, int]:
    """Send clicks; how many, and how many of them malformed."""
    visitors = ChildProcess("The visitors", _visitors(running.kafka.servers, rate, seconds))
    visitors.launch()
    try:
        while visitors.is_running:
            _fail_if_failed(running)
            meanwhile()
        sent: dict[str, int] = json.loads(visitors.wait_ready())
    except StartFailed as error:
        raise UserError(str(error)) from None
    finally:
        visitors.stop()
    return sent


def _compare(running: RunningDemo, wanted: int) -> str:
    """Check the served results against a full recomputation."""
    served = _snapshot(running)
    rows = served["shop"]
    if rows[0]["clicks"] != wanted:
        raise UserError(f"The views hold {rows[0]['clicks']} clicks, but {wanted} were sent.")
    views = running.project.views.values()
    # At once: while Spark plans the jobs of one view, it runs those of another.
    with ThreadPoolExecutor(len(views)) as pool:
        list(pool.map(partial(_replayed, running), views))
    if _snapshot(running) != served:
        raise UserError("The served results differ from a full recomputation.")
    return "Served results = full recomputation, in every row of all three views."


def _snapshot(running: RunningDemo) -> dict[str, list[dict[str, Any]]]:
    # Estimates of distinct values may differ within their error; everything else must be equal.
    return {
        "page_minutes": running.query("SELECT * EXCLUDE visitors FROM page_minutes ORDER BY ALL"),
        "slow_pages": running.query("SELECT * FROM slow_pages ORDER BY ALL"),
        "shop": running.query("SELECT * EXCLUDE visitors FROM shop"),
    }


def _replay_changed(running: RunningDemo) -> str:
    from strom.pipelines.project import load_project

    views = running.project.folder / "views.py"
    views.write_text(views.read_text("utf-8").replace(*CHANGED), "utf-8")
    changed = load_project(running.project.folder).views["page_minutes"]
    began = time.perf_counter()
    number = _replayed(running, changed)
    seconds = time.perf_counter() - began
    rows = running.query("SELECT max(p90_ms) AS p90 FROM page_minutes")
    records = running.kafka.ends(TOPIC) - running.kafka.starts(TOPIC)
    return (
        f"page_minutes has a new measure: version {number} was replayed at "
        f"{human_count(records / seconds)} clicks/s and is active "
        f"(p90 of the slowest page and minute: {rows[0]['p90']:.0f} ms)."
    )


def _replayed(running: RunningDemo, view: "View") -> int:
    from strom.pipelines.layers.replay import replay

    return replay(
        running.spark,
        running.kafka,
        running.project.manifests,
        view,
        running.project.folder,
        start=running.kafka.starts(TOPIC),
        group=running.project.group_of(view.name),
    )


class _DelayedCall:
    """A call in a thread, made once by the first `poll` after some seconds."""

    def __init__(self, seconds: float, work: Callable[[], Any]) -> None:
        self._at = time.monotonic() + seconds
        self._work = work
        self._pool = ThreadPoolExecutor(1)
        self._future: Future[Any] | None = None

    def poll(self) -> None:
        """Start the call if it is due."""
        if self._future is None and time.monotonic() >= self._at:
            self._future = self._pool.submit(self._work)

    @property
    def is_done(self) -> bool:
        return self._future is not None and self._future.done()

    @property
    def result(self) -> Any:
        """The result, after `is_done`."""
        assert self._future is not None  # noqa: S101 - it is done
        return self._future.result()


def _visitors(servers: str, rate: int, seconds: int) -> tuple[str, ...]:
    program = (sys.executable, "-m", "strom.cli.clickstream")
    return (*program, servers, TOPIC, str(rate), str(seconds), LIFELINE)


def _wait(running: RunningDemo, done: Callable[[], bool], draw: Callable[[], None]) -> None:
    while not done():
        _fail_if_failed(running)
        draw()


def _fail_if_failed(running: RunningDemo) -> None:
    if running.runner.failed is not None:
        from strom.cli.run import plain_error

        raise plain_error(running.runner.failed)


def _write_project(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (folder / "strom.toml").write_text(
        f'name = "demo"\n[kafka]\nport = {port}\n'
        '[batch]\nevery = "1 hour"\narchive_every = "5 seconds"\n',
        "utf-8",
    )
    (folder / "views.py").write_text(DEFINITIONS, "utf-8")
