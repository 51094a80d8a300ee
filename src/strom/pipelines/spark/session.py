"""The Spark session of a process."""

import contextlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.spark.jars import cache_folder, connector_jars
from strom.pipelines.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

DEFAULTS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Jobs are small and frequent: disable what pays off only for large ones.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.log.level": "ERROR",
}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_POOL = "spark.scheduler.pool"

_STANDALONE = "spark://"
_CONNECT_S = 5.0
_STOP_S = 3.0

_NICE_INCREMENT, _MAX_NICE = 5, 19

_LOG = "STROM_SPARK_LOG"
"""The environment variable that enables Spark's own output on stderr."""


def start_session(master: str, settings: Mapping[str, str] | None = None) -> "SparkSession":
    """Start Spark with its Kafka connector; UserError if that fails."""
    _check_masters(master)
    home = java_home(cache_folder())
    jars = connector_jars(home)
    os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("strom")
    chosen = {**DEFAULTS, **(settings or {})}
    chosen.setdefault(_JAVA_OPTIONS, java_options(chosen["spark.driver.memory"]))
    for name, value in chosen.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.jars", ",".join(map(str, jars)))
    if not os.environ.get(_LOG):
        # They log a stack trace for each error, and if the JVM ends, which strom reports in one line.
        for name in ("SQLQueryContextLogger", "py4j"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        logging.getLogger().addFilter(_is_not_of_py4j)
    try:
        with _quiet_stderr():
            session = _start_at_lower_priority(builder)
    except (PySparkException, Py4JError) as error:
        raise UserError(f"Spark did not start with master {master}: {_summary(error)}") from None
    server = getattr(getattr(session, "_sc", None), "_accumulatorServer", None)
    if server is not None:
        # It prints a traceback if the JVM ends, which strom reports in one line.
        server.handle_error = lambda *_: None
    return session


def _check_masters(master: str) -> None:
    """UserError if no master of a standalone cluster accepts connections.

    Spark itself tries for a minute, and then reports a stopped context instead of the reason.
    """
    if not master.startswith(_STANDALONE):
        return
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        with contextlib.suppress(OSError, ValueError, OverflowError):
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            return
    raise UserError(
        f"No Spark master accepts connections at {master}. Start it, or set `master` in [spark] of "
        'strom.toml; "local[2]" runs Spark on this machine.'
    )


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs some errors to the root logger."""
    return "py4j" not in Path(record.pathname).parts


def java_options(memory: str) -> str:
    """Options of the JVM for micro-batches in quick succession."""
    return " ".join(
        (
            "-Dlog4j2.level=ERROR",
            # A young generation that holds a whole micro-batch: with less, its cached records are
            # copied several times before they become garbage.
            f"-XX:+UseSerialGC -Xms{memory} -XX:NewRatio=1",
            # Ten times the defaults. Spark's planner is large, and each part of it runs a few thousand
            # times: compiling all of it with C2 took a third of the CPU for minutes and did not pay off.
            # Loops over records still reach these thresholds within seconds.
            "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000",
            "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000",
        )
    )


def _start_at_lower_priority(builder: "SparkSession.Builder") -> "SparkSession":
    """Start Spark's JVM and its children with a lower priority than this process.

    When Spark saturates the cores, queries and the broker are still scheduled at once.
    """
    if sys.platform != "linux":  # elsewhere, priorities belong to processes, not to threads
        return builder.getOrCreate()

    def start() -> "SparkSession":
        own = threading.get_native_id()
        lower = min(os.getpriority(os.PRIO_PROCESS, own) + _NICE_INCREMENT, _MAX_NICE)
        os.setpriority(os.PRIO_PROCESS, own, lower)  # the new process inherits it
        return builder.getOrCreate()

    # Not an executor, which the interpreter would wait for when a signal ends this process.
    started: Future[SparkSession] = Future()

    def run() -> None:
        try:
            started.set_result(start())
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            started.set_exception(error)

    threading.Thread(target=run, name="start-spark", daemon=True).start()
    return started.result()


def stop_session(session: "SparkSession") -> None:
    """Stop Spark; a no-op if its JVM has exited, as after a signal to the whole process group.

    A JVM that does not respond is killed.
    """

    def stop() -> None:
        with contextlib.suppress(Exception):
            session.stop()

    stopping = threading.Thread(target=stop, name="stop-spark", daemon=True)
    with _quiet_stderr():
        stopping.start()
        stopping.join(_STOP_S)
        is_late = stopping.is_alive()
        if is_late:
            kill_session(session)
            stopping.join(_STOP_S)
    if is_late:
        log.warning("Spark did not respond within %g s and was killed", _STOP_S)


def kill_session(session: "SparkSession") -> None:
    """Kill Spark's JVM, so that calls to it fail; a no-op if Spark runs elsewhere (Spark Connect)."""
    gateway = getattr(getattr(session, "_sc", None), "_gateway", None)
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait()


@contextlib.contextmanager
def in_pool(session: "SparkSession", name: str) -> Iterator[None]:
    """Run this thread's jobs in a fair scheduler pool of their own, instead of one queue for all."""
    session.sparkContext.setLocalProperty(_POOL, name)
    try:
        yield
    finally:
        session.sparkContext.setLocalProperty(_POOL, None)  # type: ignore[arg-type]


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Discard what Spark's launcher writes to stderr before its log settings apply."""
    if os.environ.get(_LOG):
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def _summary(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):  # Py4J: the cause follows
        lines = [line.removeprefix(": ") for line in lines[1:]]
    return lines[0] if lines else type(error).__name__
