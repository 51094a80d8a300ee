"""A table of the lake: files are written first, then one commit adds them to the table.

Both formats write the same Parquet files. Files without a commit belong to no table, so a crash at any
moment leaves either all rows of a commit together with their offsets, or none.
"""

import io
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strom.connect.api import ConnectError, RetriableError, SinkContext, TopicPartition
from strom.connect.connectors.lake.columns import TIME
from strom.connect.connectors.lake.conversion import Misfit, fit
from strom.connect.connectors.lake.evolution import TableColumns
from strom.connect.connectors.lake.files import FileStore
from strom.connect.connectors.lake.settings import LakeSettings

_LEVEL_FORMATS = {"year": "%Y", "month": "%m", "day": "%d", "hour": "%H"}


class FencedError(ConnectError):
    """Another task stores the same partition: this task is no longer its owner."""


class PartitionBatch(NamedTuple):
    """One partition's part of a commit: the offsets from `first` up to, not including, `next`."""

    rows: pa.Table | None
    """None if none of these records is a row."""
    first: int
    next: int


@dataclass(frozen=True)
class DataFile:
    """A planned or written file that does not belong to a table yet."""

    path: str
    """The path, relative to the table."""
    partition: Mapping[str, str]
    """Its values of the time levels."""
    rows: pa.Table


class LakeTable(ABC):
    """A table as written by one connector, in either format."""

    def __init__(
        self, files: FileStore, folder: str, context: SinkContext, settings: LakeSettings
    ) -> None:
        self._files = files
        self._folder = folder
        self._context = context
        self._settings = settings

    @abstractmethod
    def position(self, partition: TopicPartition) -> int | None:
        """The offset to continue from; None if nothing of the current topic was ever stored."""

    @abstractmethod
    def columns(self) -> TableColumns:
        """The existing columns; none if the table does not exist."""

    @abstractmethod
    def store(self, batches: Mapping[TopicPartition, PartitionBatch]) -> TableColumns:
        """Add rows and advance offsets, atomically for each partition; returns the columns.

        FencedError if another task has advanced them. RetriableError if another task has added columns
        that these rows do not fit: they have to be validated again.
        """

    def _write_file(self, file: DataFile) -> int:
        """Write one file; returns its size."""
        buffer = io.BytesIO()
        pq.write_table(file.rows, buffer, compression=self._settings.compression)
        data = buffer.getvalue()
        self._files.write(f"{self._folder}/{file.path}", data)
        return len(data)

    def _check_adoption(self, position: int, partition: TopicPartition) -> None:
        """Reject an offset of strom 0.1.0, which stored no topic ids, if it is not of this topic."""
        end = self._context.end_offset(partition)
        if end < position:
            raise ConnectError(
                f"The table has stored everything before offset {position} of topic "
                f"{partition.topic}, partition {partition.partition}, which now ends at {end}: the "
                "topic was deleted and recreated, or has lost records. To store it as it is now, write "
                "to another table: change path or table.name.format."
            )


def fit_again(rows: pa.Table, columns: TableColumns) -> pa.Table:
    """Convert rows again, because other tasks may have changed the table's columns."""
    try:
        return fit(rows, columns)
    except Misfit as misfit:
        raise RetriableError(
            f"Another task has added columns that buffered records do not fit: "
            f"{misfit} They are read again."
        ) from None


def split(table: pa.Table, levels: Sequence[str]) -> list[tuple[dict[str, str], pa.Table]]:
    """A table's rows by time levels, without the time column."""
    rows = table.drop_columns([TIME])
    if not levels:
        return [({}, rows)]
    folders = pc.strftime(table[TIME], format="/".join(_LEVEL_FORMATS[level] for level in levels))
    parts = []
    for folder in sorted(folders.unique().to_pylist()):
        values = dict(zip(levels, folder.split("/"), strict=True))
        parts.append((values, rows.filter(pc.equal(folders, folder))))
    return parts


def plan_files(prefix: str, rows: pa.Table, levels: Sequence[str]) -> list[DataFile]:
    """The new files for these rows, one per folder of the time levels."""
    planned = []
    for partition, part in split(rows, levels):
        below = "".join(f"{level}={value}/" for level, value in partition.items())
        path = f"{below}{prefix}-{uuid.uuid4().hex[:12]}.parquet"
        planned.append(DataFile(path, partition, part))
    return planned
