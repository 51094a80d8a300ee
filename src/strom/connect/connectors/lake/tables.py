"""A table of the lake: files are written first, then one commit makes them part of it.

Both formats write the same Parquet files. Files without a commit belong to no table, so a crash at any
moment leaves either all rows of a commit, with the offsets to go on from, or none of it.
"""

import io
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from strom.connect.api import ConnectError, RetriableError, SinkContext, TopicPartition
from strom.connect.connectors.lake.columns import TIME
from strom.connect.connectors.lake.conversion import Misfit, fit
from strom.connect.connectors.lake.evolution import TableColumns
from strom.connect.connectors.lake.files import Files
from strom.connect.connectors.lake.settings import LakeSettings

if TYPE_CHECKING:
    import pyarrow as pa

_LEVEL_FORMATS = {"year": "%Y", "month": "%m", "day": "%d", "hour": "%H"}


class FencedError(ConnectError):
    """Somebody else stores the same partition: this task is no longer its owner."""


class Batch(NamedTuple):
    """What of one partition goes into a commit: its offsets from `first` up to before `next`."""

    rows: "pa.Table | None"
    """None if none of these records becomes a row."""
    first: int
    next: int


@dataclass(frozen=True)
class DataFile:
    """A file that is to be written, or was, and belongs to no table yet."""

    path: str
    """Relative to the table."""
    partition: Mapping[str, str]
    """The levels of time it belongs to."""
    rows: "pa.Table"


class LakeTable(Protocol):
    """What both formats can do."""

    def position(self, partition: TopicPartition) -> int | None:
        """The offset to go on from; None if nothing of the topic, as it is now, was ever stored."""
        ...

    def columns(self) -> TableColumns:
        """The columns that it has; none if it does not exist."""
        ...

    def store(self, batches: Mapping[TopicPartition, Batch]) -> TableColumns:
        """Add rows and move positions, both or nothing for each partition; returns the columns.

        FencedError if another has moved them. RetriableError if another task has added columns
        meanwhile that these rows do not fit: they have to be checked record by record again.
        """
        ...


def check_adoption(position: int, partition: TopicPartition, context: SinkContext) -> None:
    """Refuse a position of strom 0.1.0, which stored no topic ids, if it is not of this topic."""
    end = context.end_offset(partition)
    if end < position:
        raise ConnectError(
            f"The table has stored everything before offset {position} of topic {partition.topic}, "
            f"partition {partition.partition}, which now ends at {end}: the topic was deleted and "
            "recreated, or has lost records. To store it as it is now, write to another table: change "
            "path or table.name.format."
        )


def fit_again(rows: "pa.Table", columns: TableColumns) -> "pa.Table":
    """Rows that were fitted when they were taken, for a table that other tasks write to as well."""
    try:
        return fit(rows, columns)
    except Misfit as misfit:
        raise RetriableError(
            f"Another task has added columns, and records that were taken before do not fit them: "
            f"{misfit} They are read again."
        ) from None


def split(table: "pa.Table", levels: Sequence[str]) -> "list[tuple[dict[str, str], pa.Table]]":
    """A table's rows by the levels of time, without the column of times."""
    import pyarrow.compute as pc

    rows = table.drop_columns([TIME])
    if not levels:
        return [({}, rows)]
    folders = pc.strftime(table[TIME], format="/".join(_LEVEL_FORMATS[level] for level in levels))
    parts = []
    for folder in sorted(folders.unique().to_pylist()):
        values = dict(zip(levels, folder.split("/"), strict=True))
        parts.append((values, rows.filter(pc.equal(folders, folder))))
    return parts


def plan_files(prefix: str, rows: "pa.Table", levels: Sequence[str]) -> list[DataFile]:
    """The new files that rows become, one for each folder of time."""
    planned = []
    for partition, part in split(rows, levels):
        below = "".join(f"{level}={value}/" for level, value in partition.items())
        path = f"{below}{prefix}-{uuid.uuid4().hex[:12]}.parquet"
        planned.append(DataFile(path, partition, part))
    return planned


def write_file(files: Files, folder: str, file: DataFile, settings: LakeSettings) -> int:
    """Write one file; returns its size."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(file.rows, buffer, compression=settings.compression)
    data = buffer.getvalue()
    files.write(f"{folder}/{file.path}", data)
    return len(data)
