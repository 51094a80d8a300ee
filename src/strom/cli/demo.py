"""`strom demo`: the main job. A shop's clicks become views, live, and the numbers are checked."""

import contextlib
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strom.cli.broker_demo import demonstrate_broker, wait_for_interrupt
from strom.cli.demo_table import live_table
from strom.cli.printing import human_count, notice
from strom.cli.project import check_views_can_run, log_of, opened, spark_of
from strom.cli.project_files import DEFINITIONS
from strom.model.errors import UserError
from strom.supervision.child_process import ChildProcess, StartFailed
from strom.supervision.lifeline import LIFELINE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strom.pipelines.kafka_log import KafkaLog
    from strom.pipelines.project import Project
    from strom.pipelines.runner import ProjectRunner
    from strom.pipelines.serving.queries import QueryEngine

TOPIC = "clicks"
WARM_UP_RATE, WARM_UP_S = 20_000, 15
"""Clicks before those that are measured: Java runs what it has not run yet many times slower."""
CHANGED = ('"mean_ms": mean("ms")', '"mean_ms": mean("ms"), "p90_ms": quantile("ms", 0.9)')


@click.command()
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    default=75_000,
    show_default=True,
    help="Clicks per second.",
)
@click.option(
    "--seconds",
    type=click.IntRange(min=5),
    default=25,
    show_default=True,
    help="How long they come.",
)
@click.option("--keep", is_flag=True, help="Leave everything running until Ctrl-C.")
@click.option(
    "--broker", is_flag=True, help="Only the broker: clicks in, clicks out. Needs no Java."
)
@click.option(
    "-n",
    "--records",
    type=click.IntRange(min=1),
    default=1_000_000,
    help="With --broker: how many.",
)
def demo(rate: int, seconds: int, keep: bool, broker: bool, records: int) -> None:
    """Watch a shop's clicks become views, live.

    A broker, three views with batch and speed layer, a check against a full recomputation, and
    a changed view that is replayed. All of it is gone afterwards. Where there is no Java, the broker
    is shown alone.
    """
    if not broker:
        try:
            check_views_can_run()
        except UserError as missing:
            notice(f"{missing}\nUntil then, the broker alone:\n")
            broker = True
    if broker:
        demonstrate_broker(records, keep)
        return
    with tempfile.TemporaryDirectory(prefix="strom-demo-", ignore_cleanup_errors=True) as folder:
        _write_project(Path(folder))
        with _running(Path(folder)) as stage:
            report = _play(stage, rate, seconds)
            click.echo("\n" + "\n".join(report))
            if keep:
                click.echo(
                    f"\nStill there: Kafka at {stage.kafka.servers}, the project in {folder}. In another "  # noqa: S608
                    f'terminal:\n  strom query -p {folder} "SELECT * FROM shop"\n\nCtrl-C ends it.'
                )
                wait_for_interrupt()


@dataclass
class Stage:
    """Everything that is running."""

    project: "Project"
    spark: "SparkSession"
    kafka: "KafkaLog"
    runner: "ProjectRunner"
    server: "QueryEngine"
    query_seconds: list[float] = field(default_factory=list)

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """An answer, timed."""
        began = time.perf_counter()
        rows: list[dict[str, Any]] = self.server.query(sql).to_pylist()
        self.query_seconds.append(time.perf_counter() - began)
        return rows


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[Stage]:
    project = opened(folder)
    with log_of(project) as kafka:
        from strom.pipelines.runner import ProjectRunner
        from strom.pipelines.serving.queries import QueryEngine

        spark = spark_of(project)
        runner = ProjectRunner(project, spark, kafka)
        runner.prepare()
        server = QueryEngine(project.manifests)
        runner.start()
        try:
            yield Stage(project, spark, kafka, runner, server)
        finally:
            runner.stop()
            server.close()
            spark.stop()


def _play(stage: Stage, rate: int, seconds: int) -> list[str]:
    """The scenes, one after the other; the lines of the report."""
    layer = stage.runner.layers[TOPIC]
    fresh = layer.progress.freshness
    with live_table(stage.ask, layer.progress) as draw:
        click.echo(f"\n1. The first clicks, {human_count(WARM_UP_RATE)} a second: Spark warms up.")
        warm_up = _sent(stage, WARM_UP_RATE, WARM_UP_S, draw)
        _wait(stage, lambda: layer.progress.records >= warm_up["sent"], draw)
        fresh.reset()
        click.echo(f"2. Clicks come, {human_count(rate)} a second; three views follow.")
        batch = _Later(seconds / 2, lambda: stage.runner.batch_now(TOPIC))

        def look() -> None:
            draw()
            batch.look()

        came = _sent(stage, rate, seconds, look)
        sent = {name: number + warm_up[name] for name, number in came.items()}
        _wait(stage, lambda: layer.progress.records >= sent["sent"], draw)
    lines = [
        f"{human_count(sent['sent'])} clicks were sent and are in all views.",
        f"Malformed: {human_count(sent['malformed'])} sent, "
        f"{human_count(layer.progress.dead_letters)} in the dead letters.",
        f"Freshness: p50 {fresh.quantile(0.5):.2f} s, p99 {fresh.quantile(0.99):.2f} s "
        "(from the log to a query's answer, at the full rate, after the warm-up).",
        f"While the stream ran, a batch of {human_count(batch.result or 0)} records was published.",
    ]
    click.echo("3. The same views once more, from the first record on.")
    lines.append(_compare(stage, sent["sent"] - sent["malformed"]))
    click.echo("4. One view is changed, and replayed beside the old one.")
    lines.append(_replay_changed(stage))
    times = sorted(stage.query_seconds)
    lines.append(
        f"{len(times)} queries while it ran: p50 {times[len(times) // 2] * 1000:.0f} ms, "
        f"p99 {times[int(len(times) * 0.99)] * 1000:.0f} ms."
    )
    return lines


def _sent(stage: Stage, rate: int, seconds: int, meanwhile: Callable[[], None]) -> dict[str, int]:
    """Let clicks come; how many, and how many of them malformed."""
    visitors = ChildProcess("The visitors", _visitors(stage.kafka.servers, rate, seconds))
    visitors.launch()
    try:
        while visitors.is_running:
            _fail_if_failed(stage)
            meanwhile()
        sent: dict[str, int] = json.loads(visitors.wait_ready())
    except StartFailed as error:
        raise UserError(str(error)) from None
    finally:
        visitors.stop()
    return sent


def _compare(stage: Stage, wanted: int) -> str:
    """Served numbers against a full recomputation."""
    served = _snapshot(stage)
    rows = served["shop"]
    if rows[0]["clicks"] != wanted:
        raise UserError(f"The views hold {rows[0]['clicks']} clicks, but {wanted} were sent.")
    from strom.pipelines.layers.replay import replay

    for view in stage.project.views.values():
        _replayed(stage, replay, view)
    if _snapshot(stage) != served:
        raise UserError("The served numbers are not those of a full recomputation.")
    return "Served numbers = full recomputation, in every row of all three views."


def _snapshot(stage: Stage) -> dict[str, list[dict[str, Any]]]:
    # Estimates of distinct values may differ within their error; all else is equal to the last digit.
    return {
        "page_minutes": stage.ask("SELECT * EXCLUDE visitors FROM page_minutes ORDER BY ALL"),
        "slow_pages": stage.ask("SELECT * FROM slow_pages ORDER BY ALL"),
        "shop": stage.ask("SELECT * EXCLUDE visitors FROM shop"),
    }


def _replay_changed(stage: Stage) -> str:
    from strom.pipelines.layers.replay import replay
    from strom.pipelines.project import load_project

    views = stage.project.folder / "views.py"
    views.write_text(views.read_text("utf-8").replace(*CHANGED), "utf-8")
    changed = load_project(stage.project.folder).views["page_minutes"]
    began = time.perf_counter()
    number = _replayed(stage, replay, changed)
    seconds = time.perf_counter() - began
    rows = stage.ask("SELECT max(p90_ms) AS p90 FROM page_minutes")
    records = stage.kafka.ends(TOPIC) - stage.kafka.starts(TOPIC)
    return (
        f"page_minutes has a new measure: version {number} was replayed at "
        f"{human_count(records / seconds)} clicks/s and switched to "
        f"(p90 of the slowest page and minute: {rows[0]['p90']:.0f} ms)."
    )


def _replayed(stage: Stage, replay: Callable[..., int], view: Any) -> int:
    return replay(
        stage.spark,
        stage.kafka,
        stage.project.manifests,
        view,
        stage.project.folder,
        start=stage.kafka.starts(TOPIC),
        group=stage.project.group_of(view.name),
    )


class _Later:
    """Something to do once, after a while, in a thread."""

    def __init__(self, seconds: float, work: Callable[[], Any]) -> None:
        from concurrent.futures import Future, ThreadPoolExecutor

        self._at = time.monotonic() + seconds
        self._work = work
        self._pool = ThreadPoolExecutor(1)
        self._future: Future[Any] | None = None

    def look(self) -> None:
        """Begin if it is time."""
        if self._future is None and time.monotonic() >= self._at:
            self._future = self._pool.submit(self._work)

    @property
    def result(self) -> Any:
        """What came of it, waiting if need be."""
        return None if self._future is None else self._future.result()


def _visitors(servers: str, rate: int, seconds: int) -> tuple[str, ...]:
    program = (sys.executable, "-m", "strom.cli.clickstream")
    return (*program, servers, TOPIC, str(rate), str(seconds), LIFELINE)


def _wait(stage: Stage, done: Callable[[], bool], draw: Callable[[], None]) -> None:
    while not done():
        _fail_if_failed(stage)
        draw()


def _fail_if_failed(stage: Stage) -> None:
    if stage.runner.failed is not None:
        from strom.cli.run import plain_error

        raise plain_error(stage.runner.failed)


def _write_project(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (folder / "strom.toml").write_text(
        f'name = "demo"\n[kafka]\nport = {port}\n'
        '[batch]\nevery = "1 hour"\narchive_every = "5 seconds"\n',
        "utf-8",
    )
    (folder / "views.py").write_text(DEFINITIONS, "utf-8")
