"""`strom run`: run a project in the foreground."""

import contextlib
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strom.cli.declared_connectors import connectors_of
from strom.cli.printing import human_count, notice, print_ready
from strom.cli.project import (
    alone_in,
    log_of,
    opened_to_compute,
    project_option,
    spark_of,
)
from strom.metrics.http import HttpStats
from strom.model.errors import StromError, UserError
from strom.supervision.ending import EndingDeadline, ending_in_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strom.pipelines.project import Project
    from strom.pipelines.runner import ProjectRunner

STATUS_S = 10.0
GRACE_S = 0.5
STEP_S = 3.0
"""How long the current steps may take once the run is to end, before Spark is killed."""
START_S, STOP_S = 5.0, 60.0
"""How long a run may take to end after a signal while it starts, and while it runs."""
ABANDON_S = 2.0
"""How long it may take once its threads cannot be stopped."""
_NOT_STOPPED = (
    "The run did not stop in time, because Spark or Kafka does not respond. It was ended; the next one "
    "continues from there."
)


@click.command()
@project_option
@click.option(
    "--mode",
    type=click.Choice(["lambda", "kappa"]),
    default="lambda",
    show_default=True,
    help="With a batch layer over the master dataset, or with the log alone.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no progress.")
def run(folder: Path, mode: Any, quiet: bool) -> None:
    """Run a project: broker, archive, speed and batch layer, serving.

    Ctrl-C and SIGTERM stop it cleanly. If Spark does not finish its current step within 3 seconds, it
    is killed, and the next run repeats the step.
    """
    with ending_in_time(START_S, _NOT_STOPPED) as deadline:
        _run(folder, mode, quiet, deadline)
    click.echo("Stopped.")


def _run(folder: Path, mode: Any, quiet: bool, deadline: EndingDeadline) -> None:
    project = opened_to_compute(folder)
    from strom.pipelines.preparation import prepare_topics
    from strom.pipelines.project import files_not_loaded
    from strom.pipelines.runner import ProjectRunner, check_definitions
    from strom.pipelines.serving.http import ServingServer, listen

    for text in check_definitions(project):
        notice(text)
    for name in project.undefined_views:
        notice(
            f"View {name} has data, but no file defines it: it can be queried, but is not updated."
            f"{files_not_loaded(project)}"
        )
    settings = project.settings
    with contextlib.ExitStack() as open_:
        open_.enter_context(alone_in(project))
        # First, because the broker and Spark take long to start.
        listener = open_.enter_context(listen(settings.serving_host, settings.serving_port))
        kafka = open_.enter_context(log_of(project))
        prepare_topics(project, kafka)  # before connectors write to them
        connect = open_.enter_context(connectors_of(project, kafka.servers))
        from strom.pipelines.measurements import make_view_metrics
        from strom.pipelines.serving.limits import QueryLimits
        from strom.pipelines.serving.queries import QueryEngine
        from strom.pipelines.spark.session import stop_session

        spark = spark_of(project)
        runner = ProjectRunner(project, spark, kafka, mode)
        runner.prepare()
        server = QueryEngine(project.manifests, limits=QueryLimits.of(settings))
        requests = HttpStats("serving")
        http = ServingServer(
            project.manifests,
            server,
            listener,
            settings.allowed_hosts,
            make_view_metrics(runner, requests).scrape,
            requests.count,
        )
        address = http.start()
        deadline.seconds = STOP_S
        runner.start()
        _announce(project, kafka.servers, address, mode, connect)
        try:
            _run_until_signal(runner, quiet)
        finally:
            if not _stop(runner, spark):
                deadline.end_within(ABANDON_S)
            http.stop()
            server.close()
            stop_session(spark)


def _stop(runner: "ProjectRunner", spark: "SparkSession") -> bool:
    """Stop the runner; False if it waits for something else than Spark."""
    from strom.pipelines.spark.session import kill_session

    if runner.stop_within(STEP_S):
        return True
    notice(
        f"Spark has not finished its current step within {STEP_S:g} s and is killed. "
        "The next run repeats the step."
    )
    kill_session(spark)
    return runner.stop_within(GRACE_S)


def _announce(
    project: "Project", servers: str, address: str, mode: str, connect: str | None
) -> None:
    facts = {"Kafka clients": servers, "serving": f"{address}/views"}
    if connect:
        facts["connectors"] = f"{connect}/connectors"
    facts["views"] = ", ".join(project.views)
    query = f'strom query "SELECT * FROM {next(iter(project.views))} LIMIT 10"'
    print_ready(f"{project.settings.name} runs ({mode})", facts, [query])


def _run_until_signal(runner: "ProjectRunner", quiet: bool) -> None:
    """Wait for a signal, or raise the runner's failure."""
    stopping = threading.Event()
    previous = {
        number: signal.signal(number, lambda *_: stopping.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    seen = 0.0
    try:
        while not stopping.wait(0.2):
            if runner.wait(0):
                break
            seen += 0.2
            if seen >= STATUS_S and not quiet:
                seen = 0.0
                _report_progress(runner)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    # A signal to the whole process group stops Java too: errors that follow are not failures.
    if runner.failed is not None and not stopping.wait(GRACE_S):
        raise plain_error(runner.failed)


def _report_progress(runner: "ProjectRunner") -> None:
    for topic, layer in runner.layers.items():
        done = layer.progress
        notice(
            f"{topic}: {human_count(done.records)} records, {human_count(done.lag)} to go, "
            f"{human_count(done.dead_letters)} malformed, last micro-batch {done.seconds:.2f} s"
        )
    for line in problems_of(runner):
        notice(line)


def problems_of(runner: "ProjectRunner") -> list[str]:
    """The current problems, one line each."""
    lags = {view: lag for one in runner.layers.values() for view, lag in one.progress.lags.items()}
    lines = [f"{why} Retrying since {since:%H:%M:%S}." for why, since in runner.retrying().items()]
    lines += [
        f"view {name} is retried, {human_count(lags.get(name, 0))} records behind: {reason}"
        for name, reason in runner.waiting().items()
    ]
    aside = runner.set_aside()
    lines += [
        f"view {name} is set aside, {human_count(lags.get(name, 0))} records behind: {reason}"
        for name, reason in aside.items()
    ]
    lines += [f"archiving has stopped: {one}" for one in runner.batches.without_archive.values()]
    if aside and aside.keys() >= runner.project.views.keys():
        lines.append("All views are set aside; queries return their last published state.")
    return lines


def plain_error(error: BaseException) -> BaseException:
    """A failure to report to the user: Spark's errors lose their Java stack trace."""
    if isinstance(error, StromError):
        return error
    from pyspark.errors import PySparkException

    from strom.pipelines.failures import classify, plain_reason

    if isinstance(error, ConnectionError):
        return UserError("Spark's Java process has exited. Run the command again.")
    if isinstance(error, PySparkException) or "py4j" in type(error).__module__:
        reason = plain_reason(error)
        return UserError(reason if classify(error) == "definition" else f"Spark failed: {reason}")
    return error
