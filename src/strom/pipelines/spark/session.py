"""The one Spark session of a process."""

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.spark.jars import cache_folder, connector_jars
from strom.pipelines.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Small jobs in quick succession: nothing that pays off only for large ones.
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

_NICER, _NICEST = 5, 19

_LOG = "STROM_SPARK_LOG"
"""A variable that, set to anything, lets Spark write to stderr what it likes."""


def start_session(master: str, settings: Mapping[str, str] | None = None) -> "SparkSession":
    """Start Spark with its Kafka connector; UserError, in plain words, if that cannot be."""
    home = java_home(cache_folder())
    jars = connector_jars(home)
    os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("strom")
    chosen = {**DEFAULTS, **(settings or {})}
    chosen.setdefault(_JAVA_OPTIONS, java_options(chosen["spark.driver.memory"]))
    for name, value in chosen.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.jars", ",".join(map(str, jars)))
    if not os.environ.get(_LOG):
        # It would write the stack traces of all mistakes, which are told in a line anyway.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    try:
        with _quiet_stderr():
            session = _started(builder)
    except PySparkException as error:
        raise UserError(f"Spark did not start at {master}: {_first_line(error)}") from None
    return session


def java_options(memory: str) -> str:
    """How Java runs Spark where micro-batches follow one another closely."""
    return " ".join(
        (
            "-Dlog4j2.level=ERROR",
            # Room for all that a micro-batch makes: with less, records that it keeps for its views are
            # copied several times before they are garbage.
            f"-XX:+UseSerialGC -Xms{memory} -XX:NewRatio=1",
            # Ten times Java's own thresholds. Spark's planner is large, and each part of it is run a few
            # thousand times: compiling all of that as well as can be took a third of the processor for
            # minutes, and did not pay. Loops over records get there within seconds all the same.
            "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000",
            "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000",
        )
    )


def _started(builder: "SparkSession.Builder") -> "SparkSession":
    """Start Spark's Java, and all that comes of it, with a lower priority than this process has.

    Where Spark keeps all cores busy, queries and the broker still get theirs at once.
    """
    if sys.platform != "linux":  # elsewhere a priority belongs to a process, not to a thread
        return builder.getOrCreate()

    def start() -> "SparkSession":
        own = threading.get_native_id()
        lower = min(os.getpriority(os.PRIO_PROCESS, own) + _NICER, _NICEST)
        os.setpriority(os.PRIO_PROCESS, own, lower)  # the new process inherits it
        return builder.getOrCreate()

    with ThreadPoolExecutor(1) as launcher:
        return launcher.submit(start).result()


def stop_session(session: "SparkSession") -> None:
    """Stop Spark; nothing happens if its Java is gone already, as when all processes were told to end."""
    with contextlib.suppress(Exception), _quiet_stderr():
        session.stop()


@contextlib.contextmanager
def in_pool(session: "SparkSession", name: str) -> Iterator[None]:
    """Let this thread's jobs share the cores with others, where they would else stand in one queue."""
    session.sparkContext.setLocalProperty(_POOL, name)
    try:
        yield
    finally:
        session.sparkContext.setLocalProperty(_POOL, None)  # type: ignore[arg-type]


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Spark's launcher writes greetings to stderr before any setting can stop it."""
    if os.environ.get(_LOG):
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
