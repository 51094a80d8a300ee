"""Copies new records of topics into the master dataset."""

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strom.pipelines.kafka_log import KafkaLog, LogTruncated
from strom.pipelines.layers.master import MasterDataset
from strom.pipelines.spark.reading import read_log
from strom.pipelines.spark.writing import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Archiver:
    """Archives topics of a Kafka cluster with Spark."""

    spark: "SparkSession"
    kafka: KafkaLog
    group: str
    """The prefix of its consumer group."""

    def archive(
        self, master: MasterDataset, *, max_records: int = 2_000_000, on_one_core: bool = False
    ) -> int:
        """Archive new records of a topic, up to a limit; returns their number."""
        topic = master.topic
        with master.locked():
            start = master.position()
            end = self.kafka.ends(topic).at_most(start, max_records)
            if end == start:
                return 0
            check_same_topic(self.kafka, master)
            self.kafka.check_complete(topic, start, f"The archive of {topic}", _remedy(master))
            raw = read_log(self.spark, self.kafka, topic, start, end, f"{self.group}.archive")
            if on_one_core:
                raw = raw.coalesce(1)
            folder = master.path / f"records-{uuid.uuid4().hex}"
            files = write_rows(raw, folder, data=master.path.parent.parent)
            master.add(files, end, self.kafka.incarnation(topic))
        return end - start


def check_same_topic(kafka: KafkaLog, master: MasterDataset) -> None:
    """Raise LogTruncated if an archive belongs to another topic of its name."""
    known, seen = master.incarnation(), kafka.incarnation(master.topic)
    if known and seen and known != seen:
        raise LogTruncated(
            f"The archive of {master.topic} belongs to an earlier topic of this name, which was deleted "
            f"and recreated. {_remedy(master)}"
        )


def _remedy(master: MasterDataset) -> str:
    return (
        f"Move the folder {master.path} away, and a new archive begins with the oldest record that is "
        "there. The old one stays readable, as a Delta table."
    )
