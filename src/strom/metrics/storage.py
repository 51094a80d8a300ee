"""Metrics of the log: topics, partitions, flushes, compaction, the disk."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from strom.metrics.instruments import HistogramValue
from strom.metrics.tables import MetricsSnapshot, MetricTable, counter, gauge, histogram

TOPICS = MetricTable(
    ("topic",),
    (
        counter(
            "strom_topic_bytes_in",
            "Bytes appended, as they are stored.",
            "BrokerTopicMetrics BytesInPerSec",
        ),
        counter(
            "strom_topic_bytes_out",
            "Bytes of record batches sent to consumers.",
            "BrokerTopicMetrics BytesOutPerSec",
        ),
        counter(
            "strom_topic_records_in",
            "Records appended.",
            "BrokerTopicMetrics MessagesInPerSec",
        ),
        gauge("strom_topic_log_bytes", "Size of all segments."),
        gauge("strom_topic_partitions", "Partitions."),
    ),
    ranked_by=3,
)
PARTITIONS = MetricTable(
    ("topic", "partition"),
    (
        gauge("strom_partition_log_bytes", "Size of all segments.", "Log Size"),
        gauge("strom_partition_log_segments", "Segments.", "Log NumLogSegments"),
        gauge("strom_partition_log_start_offset", "The first offset.", "Log LogStartOffset"),
        gauge("strom_partition_log_end_offset", "The next offset.", "Log LogEndOffset"),
        gauge(
            "strom_partition_log_damaged_offsets",
            "Offsets in damaged batches that were found so far: reading them fails.",
        ),
    ),
    ranked_by=0,
)
LOGS = MetricTable(
    (),
    (
        gauge("strom_log_partitions", "Partitions on this broker.", "PartitionCount"),
        gauge(
            "strom_log_offline_partitions",
            "Partitions whose log is damaged, or cannot be read.",
            "OfflinePartitionsCount",
        ),
        gauge(
            "strom_log_damaged_offsets",
            "Offsets in damaged batches that were found so far, of all partitions that are not offline.",
        ),
    ),
)
FLUSHES = MetricTable(
    (),
    (
        histogram(
            "strom_log_flush_seconds",
            "How long the disk took to sync the files of one partition.",
            "LogFlushRateAndTimeMs",
        ),
        histogram("strom_group_commit_partitions", "Partitions that were synced in one round."),
        counter(
            "strom_group_commit_appends",
            "Appends that asked for a sync; over the rounds, how many share one.",
        ),
    ),
)
CLEANING = MetricTable(
    (),
    (
        counter("strom_log_compactions", "Compactions that rewrote segments."),
        counter("strom_log_compaction_seconds", "Time that compactions took."),
        counter(
            "strom_log_compaction_bytes_removed", "By how much compactions made their logs smaller."
        ),
        counter("strom_log_retention_segments", "Segments that retention has deleted."),
    ),
)
DIRECTORY = MetricTable(
    (),
    (
        gauge(
            "strom_log_directory_offline",
            "1 after a write or sync has failed: nothing is accepted until a restart.",
            "OfflineLogDirectoryCount",
        ),
        gauge(
            "strom_log_directory_refusing_writes",
            "1 while writes are refused because space, descriptors or memory are short.",
        ),
        gauge("strom_log_directory_free_bytes", "Free space on the file system of the data."),
        gauge("strom_log_directory_size_bytes", "Size of that file system."),
    ),
)
TABLES = (TOPICS, PARTITIONS, LOGS, FLUSHES, CLEANING, DIRECTORY)


class PartitionReading(NamedTuple):
    """The counters of one partition since the broker started, and its size."""

    topic: str
    partition: int
    bytes_in: int
    bytes_out: int
    records_in: int
    log_bytes: int
    segments: int
    start_offset: int
    end_offset: int
    damaged_offsets: int
    is_offline: bool


class FlushReading(NamedTuple):
    """The row of FLUSHES."""

    seconds: HistogramValue
    partitions: HistogramValue
    appends: int


class CleaningReading(NamedTuple):
    """The row of CLEANING."""

    compactions: int
    seconds: float
    bytes_removed: int
    segments_deleted: int


class DirectoryReading(NamedTuple):
    """The row of DIRECTORY; NaN for what the file system does not report."""

    is_offline: bool
    refuses_writes: bool
    free_bytes: float
    size_bytes: float


class LogCollector:
    """Topics and partitions, read together: a topic's values are the sums over its partitions."""

    tables: tuple[MetricTable, ...] = (TOPICS, PARTITIONS, LOGS)

    def __init__(self, partitions: Callable[[], Iterable[PartitionReading]]) -> None:
        self._partitions = partitions

    def collect(self, into: MetricsSnapshot) -> Iterator[None]:
        """Read every partition once; those of a topic must be adjacent."""
        count = offline = damaged = 0
        for topic, partitions in groupby(self._partitions(), key=lambda one: one.topic):
            sums = [0, 0, 0, 0, 0]
            for one in partitions:
                into.add(PARTITIONS, (topic, str(one.partition)), one[5:10])
                for at, value in enumerate((*one[2:6], 1)):
                    sums[at] += value
                count += 1
                offline += one.is_offline
                damaged += one.damaged_offsets
                yield
            into.add(TOPICS, (topic,), tuple(sums))
        into.add(LOGS, (), (count, offline, damaged))
