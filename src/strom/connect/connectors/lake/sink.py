"""LakeSink: records become rows of tables, exactly once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from strom.connect.api import (
    ConnectError,
    PoisonRecord,
    SinkConnector,
    SinkContext,
    SinkRecord,
    SinkTask,
    Stretch,
    TopicPartition,
    stretches,
)
from strom.connect.api.stretches import joined
from strom.connect.connectors.lake.columns import Wanted, make_table
from strom.connect.connectors.lake.delta import DeltaTable
from strom.connect.connectors.lake.files import open_files
from strom.connect.connectors.lake.parquet import ParquetTable
from strom.connect.connectors.lake.settings import S3_SCHEME, LakeSettings
from strom.connect.connectors.lake.tables import Batch, LakeTable

if TYPE_CHECKING:
    import pyarrow as pa

Place = tuple[str, TopicPartition]
"""The topic that names the table, and the partition that the records were read from.

They differ where a transform has renamed the topic: a partition's records may then be in several
tables, and each has a position of its own.
"""


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

    most_at_once: ClassVar = 20_000

    def __init__(self, settings: LakeSettings, context: SinkContext) -> None:
        super().__init__(settings, context)
        self._files = open_files(settings)
        self._tables: dict[str, LakeTable] = {}
        self._taken: dict[Place, _Taken] = {}
        self._stored: dict[Place, int | None] = {}
        self._rows = 0
        self._wanted = Wanted(
            settings.record_columns, bool(settings.levels), settings.timestamp_field
        )

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Look up how far the tables are.

        Reading goes on from what the worker has committed, which is never ahead of the tables; what a
        table has already is not stored again. No table is asked where to go on, for others may have
        got less of the same partition.
        """
        for partition in partitions:
            self._position((partition.topic, partition))
        return {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records; nothing is taken if one of them cannot be a row."""
        if self._rows >= self.settings.flush_size:
            self.flush()
        made = []
        index = 0
        for place, group in groupby(stretches(records), _place):
            run = joined(list(group))
            made.append((place, run, self._made(place, run, index)))
            index += len(run)
        for place, run, table in made:
            taken = self._taken.get(place)
            if taken is None:
                stored = self._position(place)
                first = run.offsets[0] if stored is None else stored
                taken = self._taken[place] = _Taken(first, first)
            taken.next = max(taken.next, run.offsets[-1] + 1)
            if table is not None:
                taken.tables.append(table)
                self._rows += table.num_rows

    def flush(self) -> None:
        """Store everything taken so far."""
        by_topic: dict[str, dict[TopicPartition, Batch]] = {}
        for (topic, partition), taken in self._taken.items():
            if taken.next > taken.first:
                by_topic.setdefault(topic, {})[partition] = taken.batch()
        for topic, batches in by_topic.items():
            self._table(topic).store(batches)
            for partition, batch in batches.items():
                self._stored[topic, partition] = batch.next
                self._rows -= batch.rows.num_rows if batch.rows is not None else 0
                del self._taken[topic, partition]

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget them; what was not stored is read again by who has them next."""
        gone = set(partitions)
        self._stored = {place: at for place, at in self._stored.items() if place[1] not in gone}
        self._taken = {place: taken for place, taken in self._taken.items() if place[1] not in gone}
        self._rows = sum(table.num_rows for taken in self._taken.values() for table in taken.tables)

    def _made(self, place: Place, run: Stretch, index: int) -> "pa.Table | None":
        """The rows of some records of one place; `index` is where the first is in the call."""
        taken = self._taken.get(place)
        already = taken.next if taken is not None else self._position(place) or 0
        if self.settings.on_null == "fail" and None in run.values:
            at = run.values.index(None)
            raise PoisonRecord("It has no value (behavior.on.null.values=fail).", index + at)
        places: Sequence[int] = range(len(run))
        if run.offsets[0] < already or None in run.values:
            places = [
                at
                for at, (offset, value) in enumerate(zip(run.offsets, run.values, strict=True))
                if offset >= already and value is not None
            ]
        if not places:
            return None
        try:
            return make_table(run.at(places), self._wanted)
        except PoisonRecord as poison:
            raise PoisonRecord(str(poison), index + places[poison.index]) from None

    def _position(self, place: Place) -> int | None:
        if place not in self._stored:
            self._stored[place] = self._table(place[0]).position(place[1])
        return self._stored[place]

    def _table(self, topic: str) -> LakeTable:
        table = self._tables.get(topic)
        if table is None:
            kind = DeltaTable if self.settings.format == "delta" else ParquetTable
            folder = self.settings.table_name.replace("${topic}", topic)
            table = self._tables[topic] = kind(self._files, folder, self.context, self.settings)
        return table


def _place(records: Stretch) -> Place:
    return records.topic, records.origin


class LakeSink(SinkConnector[LakeSettings]):
    """Records as Parquet or Delta tables."""

    settings_class = LakeSettings
    task_class = LakeSinkTask

    def set_positions(self, connector: str, positions: Mapping[TopicPartition, int]) -> None:
        """Refuse: what is in a table would be stored a second time."""
        raise ConnectError(
            "The tables of a LakeSink know how far they are, and take no record twice. To store the "
            "records again, write to other tables: change path or table.name.format."
        )

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
