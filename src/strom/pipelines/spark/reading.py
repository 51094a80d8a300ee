"""Reads raw records between two positions, from Kafka or from the master dataset."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from strom.pipelines.offsets import TopicOffsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from strom.pipelines.kafka_log import KafkaLog

RAW_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
RAW_SCHEMA = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The columns of a raw record, also those of the master dataset."""
_CONSUMER = {
    # A fetch at the end of the log waits this long for more. The connector starts a new one for every
    # partition of every micro-batch, so the default of 500 ms would dominate a view's latency.
    "fetch.max.wait.ms": "20",
    # Few large fetches and polls instead of many small ones: a replay is 20 to 40 % faster.
    "max.partition.fetch.bytes": str(8 << 20),
    "max.poll.records": "20000",
    "receive.buffer.bytes": str(1 << 20),
    "isolation.level": "read_committed",
}

_ALL_FILES = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""Override the session's settings: a batch reads all records, or fails."""


def read_log(
    spark: "SparkSession",
    kafka: "KafkaLog",
    topic: str,
    start: TopicOffsets,
    end: TopicOffsets,
    group: str,
) -> "DataFrame":
    """The records from `start` (inclusive) to `end` (exclusive)."""
    partitions = range(len(end.next))
    reader = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka.servers)
        .option("assign", json.dumps({topic: list(partitions)}))
        .option("startingOffsets", _as_json(topic, start, len(partitions)))
        .option("endingOffsets", _as_json(topic, end, len(partitions)))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("minPartitions", cores_of(spark))
        # The connector caches consumers by group: a stable name lets it reuse them.
        .option("kafka.group.id", group)
    )
    for name, value in {**_CONSUMER, **kafka.java_settings}.items():
        reader = reader.option(f"kafka.{name}", value)
    return reader.load().select(*RAW_COLUMNS)


def cores_of(spark: "SparkSession") -> int:
    """The number of concurrent tasks: Spark Connect only exposes the number of shuffle partitions."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 2)


def read_master(
    spark: "SparkSession", files: Sequence[str], start: TopicOffsets, end: TopicOffsets
) -> "DataFrame":
    """The archived records of these files from `start` (inclusive) to `end` (exclusive)."""
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
    """A path with glob characters escaped: Spark's readers expand them."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path))


def _as_json(topic: str, offsets: TopicOffsets, partitions: int) -> str:
    return json.dumps({topic: {str(one): offsets[one] for one in range(partitions)}})
