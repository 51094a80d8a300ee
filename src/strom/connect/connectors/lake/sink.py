"""LakeSink: records become rows of tables, exactly once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from strom.connect.api import (
    PoisonRecord,
    SinkConnector,
    SinkContext,
    SinkRecord,
    SinkTask,
    TopicPartition,
)
from strom.connect.connectors.lake.columns import make_table
from strom.connect.connectors.lake.delta import DeltaTable
from strom.connect.connectors.lake.files import open_files
from strom.connect.connectors.lake.parquet import ParquetTable
from strom.connect.connectors.lake.settings import S3_SCHEME, LakeSettings
from strom.connect.connectors.lake.tables import Batch, LakeTable

if TYPE_CHECKING:
    import pyarrow as pa

_of = itemgetter(0, 1)


@dataclass
class _Taken:
    """What was taken of one partition, and is not stored yet."""

    first: int
    next: int
    tables: "list[pa.Table]" = field(default_factory=list)

    def batch(self) -> Batch:
        import pyarrow as pa

        rows = pa.concat_tables(self.tables, promote_options="permissive") if self.tables else None
        return Batch(rows, self.first, self.next)


class LakeSinkTask(SinkTask[LakeSettings]):
    """Collects rows in memory, and stores them with their offsets."""

    def __init__(self, settings: LakeSettings, context: SinkContext) -> None:
        super().__init__(settings, context)
        self._files = open_files(settings)
        self._tables: dict[str, LakeTable] = {}
        self._taken: dict[TopicPartition, _Taken] = {}
        self._stored: dict[TopicPartition, int] = {}
        self._rows = 0

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Go on from where the tables are."""
        found = {}
        for partition in partitions:
            position = self._table(partition.topic).position(partition)
            if position is not None:
                found[partition] = self._stored[partition] = position
        return found

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records; nothing is taken if one of them cannot be a row."""
        if self._rows >= self.settings.flush_size:
            self.flush()
        made = []
        index = 0
        for (topic, number), group in groupby(records, _of):
            run = list(group)
            partition = TopicPartition(topic, number)
            made.append((partition, run, self._made(partition, run, index)))
            index += len(run)
        for partition, run, table in made:
            taken = self._taken.get(partition)
            if taken is None:
                first = self._stored.get(partition, run[0].offset)
                taken = self._taken[partition] = _Taken(first, first)
            taken.next = max(taken.next, run[-1].offset + 1)
            if table is not None:
                taken.tables.append(table)
                self._rows += table.num_rows

    def flush(self) -> None:
        """Store everything taken so far."""
        by_topic: dict[str, dict[TopicPartition, Batch]] = {}
        for partition, taken in self._taken.items():
            by_topic.setdefault(partition.topic, {})[partition] = taken.batch()
        for topic, batches in by_topic.items():
            self._table(topic).store(batches)
            for partition, batch in batches.items():
                self._stored[partition] = batch.next
                self._rows -= batch.rows.num_rows if batch.rows is not None else 0
                del self._taken[partition]

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget them; what was not stored is read again by who has them next."""
        for partition in partitions:
            self._stored.pop(partition, None)
            taken = self._taken.pop(partition, None)
            if taken is not None:
                self._rows -= sum(table.num_rows for table in taken.tables)

    def _made(
        self, partition: TopicPartition, run: list[SinkRecord], index: int
    ) -> "pa.Table | None":
        """The rows of some records of one partition; `index` is the place of the first in the call."""
        already = max(
            self._stored.get(partition, 0),
            self._taken[partition].next if partition in self._taken else 0,
        )
        places = [
            place
            for place, record in enumerate(run)
            if record.offset >= already and record.value is not None
        ]
        if self.settings.on_null == "fail":
            for place, record in enumerate(run):
                if record.value is None:
                    raise PoisonRecord(
                        "It has no value (behavior.on.null.values=fail).", index + place
                    )
        if not places:
            return None
        wanted = run if len(places) == len(run) else [run[place] for place in places]
        try:
            return make_table(wanted, self.settings.record_columns, self.settings.timestamp_field)
        except PoisonRecord as poison:
            raise PoisonRecord(str(poison), index + places[poison.index]) from None

    def _table(self, topic: str) -> LakeTable:
        table = self._tables.get(topic)
        if table is None:
            kind = DeltaTable if self.settings.format == "delta" else ParquetTable
            folder = self.settings.table_name.replace("${topic}", topic)
            table = self._tables[topic] = kind(
                self._files, folder, self.context.connector, self.settings
            )
        return table


class LakeSink(SinkConnector[LakeSettings]):
    """Records as Parquet or Delta tables."""

    settings_class = LakeSettings
    task_class = LakeSinkTask

    def check(self) -> Mapping[str, str]:
        """See that the folder can be made."""
        if not re.fullmatch(r"[^/\\]+", self.settings.table_name.replace("${topic}", "t")):
            return {"table.name.format": "A table's name has no slashes: it is one folder in path."}
        if self.settings.path.startswith(S3_SCHEME):
            return {}
        try:
            Path(self.settings.path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return {"path": f"The folder cannot be made: {error.strerror}."}
        return {}
