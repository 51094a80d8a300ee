"""Raw records as rows: from Kafka between two positions, or from the master dataset."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from strom.pipelines.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RAW_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
RAW_SCHEMA = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""What is known of a record; the master dataset has the same columns."""
_CONSUMER = {
    # A fetch at the end of the log waits this long for more. The connector begins a new one for every
    # partition of every micro-batch, so its default of 500 ms would be most of a view's latency.
    "fetch.max.wait.ms": "20",
    # Few large fetches and polls, where the defaults make many small ones: a replay is a fifth to two
    # fifths faster.
    "max.partition.fetch.bytes": str(8 << 20),
    "max.poll.records": "20000",
    "receive.buffer.bytes": str(1 << 20),
    "isolation.level": "read_committed",
}

_ALL_FILES = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""Whatever the session's settings are: a batch reads all records, or fails."""


def read_log(
    spark: "SparkSession",
    servers: str,
    topic: str,
    start: Offsets,
    end: Offsets,
    *,
    group: str,
    client_settings: Mapping[str, str] | None = None,
) -> "DataFrame":
    """The records from `start` up to, but without, `end`."""
    partitions = range(len(end.next))
    reader = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("assign", json.dumps({topic: list(partitions)}))
        .option("startingOffsets", _as_json(topic, start, len(partitions)))
        .option("endingOffsets", _as_json(topic, end, len(partitions)))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("minPartitions", cores_of(spark))
        # With a name that stays, the connector uses its consumers again.
        .option("kafka.group.id", group)
    )
    for name, value in {**_CONSUMER, **(client_settings or {})}.items():
        reader = reader.option(f"kafka.{name}", value)
    return reader.load().select(*RAW_COLUMNS)


def cores_of(spark: "SparkSession") -> int:
    """How many tasks run at once, taken from what a shuffle has: Spark Connect does not tell cores."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 2)


def read_master(
    spark: "SparkSession", files: Sequence[str], start: Offsets, end: Offsets
) -> "DataFrame":
    """The archived records of these files from `start` up to, but without, `end`."""
    rows = (
        spark.read.schema(RAW_SCHEMA).options(**_ALL_FILES).parquet(*map(literal_path, files))
        if files
        else spark.createDataFrame([], RAW_SCHEMA)
    )
    between = " OR ".join(
        f"(partition = {partition} AND offset >= {start[partition]} AND offset < {offset})"
        for partition, offset in enumerate(end.next)
    )
    return rows.where(between or "false")


def literal_path(path: Path | str) -> str:
    """A path for Spark's readers, which else take some characters for patterns of file names."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path))


def _as_json(topic: str, offsets: Offsets, partitions: int) -> str:
    return json.dumps({topic: {str(one): offsets[one] for one in range(partitions)}})
