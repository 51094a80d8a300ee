"""LakeSink: writes records as rows of tables, exactly once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from strom.connect.api import (
    ConnectError,
    PoisonRecord,
    RecordBatch,
    SinkConnector,
    SinkContext,
    SinkRecord,
    SinkTask,
    TopicPartition,
)
from strom.connect.api import record_batches as record_batches
from strom.connect.api.record_batches import joined
from strom.connect.connectors.lake.columns import ColumnSelection
from strom.connect.connectors.lake.conversion import fit, rows_of
from strom.connect.connectors.lake.evolution import TableColumns
from strom.connect.connectors.lake.files import open_files
from strom.connect.connectors.lake.parquet import ParquetTable
from strom.connect.connectors.lake.settings import S3_SCHEME, LakeSettings
from strom.connect.connectors.lake.tables import LakeTable, PartitionBatch

Place = tuple[str, TopicPartition]
"""The topic that names the table, and the partition that the records were read from.

They differ if a transform has renamed the topic: a partition's records may then be in several tables,
each with its own offset.
"""


@dataclass
class _Taken:
    """The rows of one partition that are not stored yet."""

    first: int
    next: int
    tables: list[pa.Table] = field(default_factory=list)

    def batch(self, columns: TableColumns | None) -> PartitionBatch:
        """All rows, converted to the current columns of the table."""
        rows = None
        if columns is not None and self.tables:
            rows = pa.concat_tables([fit(table, columns) for table in self.tables])
        return PartitionBatch(rows, self.first, self.next)


class _Made(NamedTuple):
    """The rows of some records of one destination, before they are buffered."""

    place: Place
    first: int
    next: int
    """The offset after the last of these records, whether it is a row or not."""
    tables: list[pa.Table]


class LakeSinkTask(SinkTask[LakeSettings]):
    """Buffers rows in memory, and stores them together with their offsets."""

    most_at_once: ClassVar = 20_000

    def __init__(self, settings: LakeSettings, context: SinkContext) -> None:
        super().__init__(settings, context)
        self._files = open_files(settings)
        self._tables: dict[str, LakeTable] = {}
        self._taken: dict[Place, _Taken] = {}
        self._stored: dict[Place, int | None] = {}
        self._columns: dict[str, TableColumns] = {}
        """The columns of each topic's table, including those of buffered rows."""
        self._rows = 0
        self._wanted = ColumnSelection(
            settings.record_columns, settings.levels, settings.timestamp_field
        )

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Look up the offsets of the tables.

        Reading starts from the worker's committed offsets, which are never ahead of the tables; records
        that a table already has are not stored again. No table's offset is returned, because other
        tables may have less of the same partition.
        """
        for partition in partitions:
            self._position((partition.topic, partition))
        return {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Buffer records; none is buffered if one of them cannot be a row."""
        if self._rows >= self.settings.flush_size:
            self.flush()
        made: list[_Made] = []
        columns: dict[str, TableColumns] = {}
        index = 0
        for place, group in groupby(record_batches(records), _place):
            parts = list(group)
            for run, indexes in _by_schema(parts, index):
                made.append(self._made(place, run, indexes, columns, made))
            index += sum(map(len, parts))
        self._columns |= columns
        for one in made:
            self._take(one)

    def flush(self) -> None:
        """Store all buffered rows."""
        by_topic: dict[str, dict[TopicPartition, PartitionBatch]] = {}
        for (topic, partition), taken in self._taken.items():
            if taken.next > taken.first:
                columns = self._columns.get(topic)
                batch = taken.batch(columns and columns.settled())
                by_topic.setdefault(topic, {})[partition] = batch
        for topic, batches in by_topic.items():
            self._columns[topic] = self._table(topic).store(batches)
            for partition, batch in batches.items():
                self._stored[topic, partition] = batch.next
                self._rows -= batch.rows.num_rows if batch.rows is not None else 0
                del self._taken[topic, partition]

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Discard buffered rows; the next owner of the partitions reads them again."""
        gone = set(partitions)
        self._stored = {place: at for place, at in self._stored.items() if place[1] not in gone}
        self._taken = {place: taken for place, taken in self._taken.items() if place[1] not in gone}
        waiting = {topic for topic, _ in self._taken}
        self._columns = {topic: one for topic, one in self._columns.items() if topic in waiting}
        self._rows = sum(table.num_rows for taken in self._taken.values() for table in taken.tables)

    def _made(
        self,
        place: Place,
        run: RecordBatch,
        indexes: Sequence[int],
        columns: dict[str, TableColumns],
        before: Sequence[_Made],
    ) -> _Made:
        """The rows of some records of one destination; `indexes` are their indexes in the call.

        Adds the new columns of these rows to `columns`.
        """
        taken = self._taken.get(place)
        already = taken.next if taken is not None else self._position(place) or 0
        if self.settings.on_null == "fail" and None in run.values:
            at = run.values.index(None)
            raise PoisonRecord(
                "The record has no value (behavior.on.null.values=fail).", indexes[at]
            )
        places: Sequence[int] = range(len(run))
        if run.offsets[0] < already or None in run.values:
            places = [
                at
                for at, (offset, value) in enumerate(zip(run.offsets, run.values, strict=True))
                if offset >= already and value is not None
            ]
        tables: list[pa.Table] = []
        if places:
            topic = place[0]
            known = columns.get(topic) or self._columns_of(topic)
            try:
                columns[topic], tables = rows_of(
                    run.at(places), self._wanted, known, lambda: self._waiting(topic, before)
                )
            except PoisonRecord as poison:
                raise PoisonRecord(str(poison), indexes[places[poison.index]]) from None
        return _Made(place, run.offsets[0], run.offsets[-1] + 1, tables)

    def _waiting(self, topic: str, before: Sequence[_Made]) -> list[pa.Table]:
        """The rows of a topic's table that are not stored yet."""
        taken = [one.tables for place, one in self._taken.items() if place[0] == topic]
        made = [one.tables for one in before if one.place[0] == topic]
        return list(chain.from_iterable(taken + made))

    def _take(self, made: _Made) -> None:
        taken = self._taken.get(made.place)
        if taken is None:
            stored = self._position(made.place)
            first = made.first if stored is None else stored
            taken = self._taken[made.place] = _Taken(first, first)
        taken.next = max(taken.next, made.next)
        taken.tables += made.tables
        self._rows += sum(table.num_rows for table in made.tables)

    def _position(self, place: Place) -> int | None:
        if place not in self._stored:
            self._stored[place] = self._table(place[0]).position(place[1])
        return self._stored[place]

    def _columns_of(self, topic: str) -> TableColumns:
        columns = self._columns.get(topic)
        if columns is None:
            columns = self._columns[topic] = self._table(topic).columns()
        return columns

    def _table(self, topic: str) -> LakeTable:
        if topic not in self._tables:
            folder = self.settings.table_name.replace("${topic}", topic)
            make = _delta_table if self.settings.format == "delta" else ParquetTable
            self._tables[topic] = make(self._files, folder, self.context, self.settings)
        return self._tables[topic]


def _delta_table(*of: Any) -> LakeTable:
    from strom.connect.connectors.lake.delta import DeltaTable  # loads delta-rs

    return DeltaTable(*of)


def _place(records: RecordBatch) -> Place:
    return records.topic, records.origin


def _by_schema(parts: Sequence[RecordBatch], index: int) -> list[tuple[RecordBatch, Sequence[int]]]:
    """The records of one destination by schema, with their indexes in the call.

    `index` is that of the first one. Records of several versions of a schema may alternate; without a
    schema, a map would become a struct, and a decimal would get the scale of its own digits.
    """
    found: list[tuple[list[RecordBatch], list[int]]] = []
    for part in parts:
        alike = (one for one in found if one[0][0].value_schema == part.value_schema)
        group = next(alike, None)
        if group is None:
            group = ([], [])
            found.append(group)
        group[0].append(part)
        group[1].extend(range(index, index + len(part)))
        index += len(part)
    return [(joined(group), indexes) for group, indexes in found]


class LakeSink(SinkConnector[LakeSettings]):
    """Records as Parquet or Delta tables."""

    settings_class = LakeSettings
    task_class = LakeSinkTask

    def set_positions(self, connector: str, positions: Mapping[TopicPartition, int]) -> None:
        """Always fails: the table's rows would be stored a second time."""
        raise ConnectError(
            "The tables of a LakeSink store their offsets, and take no record twice. To store the "
            "records again, write to other tables: change path or table.name.format."
        )

    def check(self) -> Mapping[str, str]:
        """Check that the folder can be created."""
        if not re.fullmatch(r"[^/\\]+", self.settings.table_name.replace("${topic}", "t")):
            return {
                "table.name.format": "A table's name must not contain slashes: it is one folder in path."
            }
        if self.settings.path.startswith(S3_SCHEME):
            return {}
        try:
            Path(self.settings.path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return {"path": f"The folder cannot be created: {error.strerror}."}
        return {}
