"""What all parts share: a broker with clicks in it, a Spark session, a folder, and the views."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from strom.cli.clickstream import Visitors
from strom.pipelines import Stream, View, count, distinct, mean, window
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.spark.session import DEFAULTS, java_options, start_session
from strom.pipelines.views.manifests import Manifests
from strom.testing import BrokerProcess

SCHEMA = "user STRING, page STRING, ms INT, at TIMESTAMP"
TOPIC = "clicks"
CLICKS = Stream(TOPIC, schema=SCHEMA, time="at")
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
BEGINNING = TopicOffsets((0, 0, 0))
USERS_AT_ONCE = 100_000
"""Who click in the history: this makes the many keys many."""
_CHUNK = 100_000


@dataclass(frozen=True)
class Scale:
    """How large."""

    history: int
    live_rate: int
    warm_s: float
    live_s: float
    burst_s: float
    memory_records: int


FULL = Scale(10_000_000, 75_000, 40, 60, 20, 1_000_000)
QUICK = Scale(1_000_000, 75_000, 40, 20, 5, 300_000)


@dataclass
class Stage:
    """A broker, a Spark session, and a folder."""

    spark: SparkSession
    kafka: KafkaLog
    folder: Path

    def manifests(self, name: str) -> Manifests:
        """An empty place for views."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return Manifests(self.folder / name / "views")

    def fill(self, records: int) -> None:
        """Put clicks over a quarter of an hour into the topic, once."""
        if TOPIC in self.kafka.topics():
            return
        self.kafka.create(TOPIC, len(BEGINNING.next))
        visitors = Visitors(sessions=USERS_AT_ONCE)
        first = datetime.now(UTC) - timedelta(seconds=900)
        chunks = (
            visitors.clicks(_CHUNK, first + timedelta(seconds=900 * sent / records))
            for sent in range(0, records, _CHUNK)
        )
        self.send(TOPIC, chunks)

    def send(self, topic: str, chunks: Iterator[list[bytes]]) -> None:
        """Put records into a topic."""
        producer = Producer(
            {
                "bootstrap.servers": self.kafka.servers,
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
                "delivery.report.only.error": True,
            }
        )
        for chunk in chunks:
            for value in chunk:
                producer.produce(topic, value)
            producer.flush()


@contextmanager
def set_up() -> Iterator[Stage]:
    """Everything started, and gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="strom-bench-"))
    try:
        with BrokerProcess() as broker:
            memory = DEFAULTS["spark.driver.memory"]
            # All of the heap resident from the start, so that memory outside of it can be told apart.
            options = f"{java_options(memory)} -XX:+AlwaysPreTouch"
            spark = start_session("local[2]", {"spark.driver.extraJavaOptions": options})
            yield Stage(spark, KafkaLog(broker.bootstrap_servers), folder)
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
