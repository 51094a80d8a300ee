"""How fast views are: python -m benchmarks.pipelines [--quick].

Producer, broker and Spark share this machine. The peer is the same view written by hand in Spark
Structured Streaming, with its RocksDB state store, over the same topic in the same run.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import machine
from strom.cli.clickstream import Visitors
from strom.pipelines import Stream, View, count, distinct, mean, window
from strom.pipelines.batch import run_batch
from strom.pipelines.feeds import feed_of
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.manifests import Manifests
from strom.pipelines.master import MasterDataset
from strom.pipelines.offsets import Offsets
from strom.pipelines.project import Project
from strom.pipelines.replay import begin_version, replay
from strom.pipelines.runner import Runner
from strom.pipelines.serving.queries import Server
from strom.pipelines.settings import Settings
from strom.pipelines.spark.session import start_session
from strom.testing import BrokerProcess

SCHEMA = "user STRING, page STRING, ms INT, at TIMESTAMP"
CLICKS = Stream("clicks", schema=SCHEMA, time="at")
FEW_KEYS = View(
    reads=CLICKS, keys=[window("10 seconds"), "page"], measures={"n": count()}, name="few_keys"
)
MANY_KEYS = View(
    reads=CLICKS, keys=[window("10 seconds"), "user"], measures={"n": count()}, name="many_keys"
)
PAGE_MINUTES = View(
    reads=CLICKS,
    keys=[window("1 minute"), "page"],
    measures={"views": count(), "mean_ms": mean("ms"), "visitors": distinct("user")},
    name="page_minutes",
)


@dataclass(frozen=True)
class Scale:
    """How large."""

    history: int
    live_rate: int
    live_s: float


FULL = Scale(history=10_000_000, live_rate=75_000, live_s=60)
QUICK = Scale(history=1_000_000, live_rate=25_000, live_s=20)


@dataclass
class Bench:
    """A broker with clicks in it, a Spark session, and a folder."""

    spark: SparkSession
    kafka: KafkaLog
    folder: Path

    def manifests(self, name: str) -> Manifests:
        """An empty place for views."""
        return Manifests(self.folder / name / "views")


def main() -> int:
    """Measure, and print one line of JSON for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller; a few minutes")
    parser.add_argument("--rate", type=int, help="clicks per second of the live part")
    parser.add_argument("--only", choices=["live", "replay", "batch"], action="append")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    if options.rate:
        scale = replace(scale, live_rate=options.rate)
    parts = {"replay": measure_replay, "batch": measure_batch, "live": measure_live}
    _print(machine=machine.describe())
    with _bench() as bench:
        for name in options.only or list(parts):
            parts[name](bench, scale)
    return 0


def measure_replay(bench: Bench, scale: Scale) -> None:
    """Replay over a history, beside Structured Streaming over the same."""
    _fill(bench, scale.history)
    for view in (FEW_KEYS, MANY_KEYS, PAGE_MINUTES):
        _replayed(bench, view, "warm-up")
        seconds = _replayed(bench, view, "replay")
        figures: dict[str, float] = {"strom_per_s": round(scale.history / seconds)}
        if view is not PAGE_MINUTES:
            _by_hand(bench, view)
            by_hand = _by_hand(bench, view)
            figures |= {
                "by_hand_per_s": round(scale.history / by_hand),
                "ratio": round(by_hand / seconds, 2),
            }
        _print(replay=view.name, records=scale.history, **figures)


def measure_batch(bench: Bench, scale: Scale) -> None:
    """What a batch costs as the history grows."""
    _fill(bench, scale.history)
    manifests = bench.manifests("batch")
    master = MasterDataset(bench.folder / "master", "clicks")
    master.create(Offsets((0, 0, 0)))
    feed = feed_of(bench.spark, PAGE_MINUTES, bench.folder)
    version = begin_version(bench.spark, manifests, feed, Offsets((0, 0, 0)))
    for _ in range(4):
        began = time.perf_counter()
        archived = master.archive(
            bench.spark, bench.kafka, group="bench", max_records=scale.history // 4
        )
        archive_s = time.perf_counter() - began
        began = time.perf_counter()
        done = run_batch(bench.spark, manifests, master, feed, version.number)
        seconds = time.perf_counter() - began
        _print(
            batch_records=done.records,
            seconds=round(seconds, 2),
            per_s=round(done.records / seconds),
            archive_per_s=round(archived / archive_s),
        )


def measure_live(bench: Bench, scale: Scale) -> None:
    """Clicks at a steady rate into three views; freshness, and queries meanwhile."""
    topic = "live"
    bench.kafka.create(topic, 3)
    stream = Stream(topic, schema=SCHEMA, time="at")
    views = {v.name: replace(v, reads=stream) for v in (PAGE_MINUTES, FEW_KEYS, MANY_KEYS)}
    settings = Settings(name="bench", data="live", servers=bench.kafka.servers)
    project = Project(bench.folder, settings, {topic: stream}, views)
    runner = Runner(project, bench.spark, bench.kafka)
    runner.prepare()
    runner.start()
    layer = runner.layers[topic]
    server = Server(project.manifests)
    command = [sys.executable, "-m", "strom.cli.clickstream", bench.kafka.servers, topic]
    try:
        _run_visitors(command, scale.live_rate, 20, server)  # warm up
        layer.progress.freshness.forget()
        began, before = time.perf_counter(), layer.progress.records
        queries = _run_visitors(command, scale.live_rate, scale.live_s, server)
        while layer.progress.lag > 0 and runner.failed is None:
            time.sleep(0.1)
        took = time.perf_counter() - began
        fresh = layer.progress.freshness
        _print(
            live_rate=scale.live_rate,
            served_per_s=round((layer.progress.records - before) / took),
            freshness_p50_s=round(fresh.quantile(0.5), 2),
            freshness_p99_s=round(fresh.quantile(0.99), 2),
            query_p50_ms=round(1000 * queries[len(queries) // 2], 1),
            query_p99_ms=round(1000 * queries[int(len(queries) * 0.99)], 1),
            queries=len(queries),
        )
    finally:
        runner.stop()
        server.close()


def _run_visitors(command: list[str], rate: int, seconds: float, server: Server) -> list[float]:
    """Send clicks, and ask for the newest pages again and again; how long the answers took."""
    visitors = subprocess.Popen([*command, str(rate), str(seconds)], stdout=subprocess.DEVNULL)
    took = []
    sql = (
        "SELECT page, views, mean_ms FROM page_minutes WHERE page = '/cart' "
        "ORDER BY window_start DESC LIMIT 5"
    )
    while visitors.poll() is None:
        began = time.perf_counter()
        server.query(sql)
        took.append(time.perf_counter() - began)
        time.sleep(0.05)
    return sorted(took)


def _replayed(bench: Bench, view: View, name: str) -> float:
    shutil.rmtree(bench.folder / name, ignore_errors=True)
    began = time.perf_counter()
    replay(
        bench.spark,
        bench.kafka,
        bench.manifests(name),
        view,
        bench.folder,
        start=Offsets((0, 0, 0)),
        group="bench",
    )
    return time.perf_counter() - began


def _by_hand(bench: Bench, view: View) -> float:
    """The same counts in Structured Streaming, in update mode, with RocksDB; seconds."""
    from pyspark.sql import functions as sf

    bench.spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    key = view.key_names[1]
    rows = (
        bench.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bench.kafka.servers)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 2_000_000)
        .load()
        .select(sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("row"))
        .select("row.*")
        .withWatermark("at", "1 hour")
        .groupBy(sf.window("at", "10 seconds"), key)
        .count()
    )
    target = bench.folder / "by-hand" / f"{view.name}-{time.time_ns()}"
    began = time.perf_counter()
    query = (
        rows.writeStream.outputMode("update")
        .foreachBatch(lambda batch, number: batch.write.parquet(str(target / str(number))))
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.perf_counter() - began


def _fill(bench: Bench, records: int) -> None:
    """Put clicks over a quarter of an hour into the topic, once."""
    from datetime import UTC, datetime, timedelta

    from confluent_kafka import Producer

    if "clicks" in bench.kafka.topics():
        return
    bench.kafka.create("clicks", 3)
    producer = Producer(
        {
            "bootstrap.servers": bench.kafka.servers,
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
        }
    )
    visitors = Visitors()
    chunk = 100_000
    for number in range(records // chunk):
        at = datetime.now(UTC) - timedelta(seconds=900 - 900 * number * chunk / records)
        for value in visitors.clicks(chunk, at):
            producer.produce("clicks", value)
        producer.flush()


@contextmanager
def _bench() -> Iterator[Bench]:
    folder = Path(tempfile.mkdtemp(prefix="strom-bench-"))
    try:
        with BrokerProcess() as broker:
            spark = start_session("local[2]")
            yield Bench(spark, KafkaLog(broker.bootstrap_servers), folder)
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _print(**figures: object) -> None:
    print(json.dumps(figures, default=str), flush=True)


if __name__ == "__main__":
    threading.current_thread().name = "bench"
    sys.exit(main())
