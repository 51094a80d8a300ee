"""Tasks of a LakeSink without a worker, records for them, and what others read of their tables."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable

from strom.connect.api import SinkRecord, TopicPartition
from strom.connect.connectors.lake.settings import LakeSettings
from strom.connect.connectors.lake.sink import LakeSinkTask

P0, P1 = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
NOON = 1_794_744_000_000  # 2026-11-15T12:00:00Z
FORMATS = ("parquet", "delta")


@dataclass
class Context:
    connector: str = "lake"
    stopping: threading.Event = field(default_factory=threading.Event)

    def topic_id(self, topic: str) -> str:
        return f"{topic}-1"

    def end_offset(self, partition: TopicPartition) -> int:
        return 0

    def pause(self, partitions: Any) -> None: ...

    def resume(self, partitions: Any) -> None: ...


def a_task(path: Path | str, **texts: str) -> LakeSinkTask:
    given_texts = {name.replace("_", "."): text for name, text in texts.items()}
    return LakeSinkTask(LakeSettings.read({"path": str(path), **given_texts}), Context())


def records(
    partition: TopicPartition, first: int, values: list[Any], timestamp: int = NOON
) -> list[SinkRecord]:
    return [
        SinkRecord(*partition, first + index, value, timestamp=timestamp)
        for index, value in enumerate(values)
    ]


def rows(path: Path, table: str = "clicks", kind: str = "parquet") -> list[dict[str, Any]]:
    """What a stranger reads: Arrow over the folder, or Delta's own reader."""
    if kind == "delta":
        found = DeltaTable(path / table).to_pyarrow_table()
    else:
        found = ds.dataset(path / table, partitioning="hive").to_table()
    listed: list[dict[str, Any]] = found.to_pylist()
    return listed
