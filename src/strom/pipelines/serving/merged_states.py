"""Merged states of views in DuckDB's memory, updated incrementally with new segments.

A query then reads one small table per view instead of many files. The table and the view over it are
replaced in one transaction, so a concurrent query sees the old snapshot or the new one. States that are
too large for memory stay in their files and are merged on read.
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.serving.connections import parquet_source
from strom.pipelines.serving.statements import finish_statement, merge_statement
from strom.pipelines.views.fold import ViewFold
from strom.pipelines.views.manifests import Manifest, Manifests, Version, ViewSegment

if TYPE_CHECKING:
    import duckdb

MAX_BYTES_IN_MEMORY = 32_000_000
"""A view with larger files is merged on read."""
_SCHEMA = "strom_states"


@dataclass(frozen=True)
class Snapshot:
    """The state of a version that a connection has loaded."""

    identity: str
    """Of the version. Its number does not suffice: the numbers of a recreated view start at 1 again."""
    batches: tuple[str, ...]
    files: tuple[str, ...]
    position: TopicOffsets
    table: str | None
    types: tuple[tuple[str, str], ...] = ()

    def segments_since(self, version: Version) -> tuple[ViewSegment, ...] | None:
        """The segments added since this snapshot; None if all states must be merged again.

        Compaction changes files, not states. A batch is a new computation, so all states are read again.
        """
        same = (version.identity, _batches(version)) == (self.identity, self.batches)
        if not same or self.table is None:
            return None
        if self.position in version.boundaries:
            bounds = version.boundaries
            return version.segments[len(bounds) - 1 - bounds[::-1].index(self.position) :]
        for index, segment in enumerate(version.segments):
            # An empty segment has been extended: it has no states, so the snapshot misses none.
            if segment.is_empty and segment.start <= self.position <= segment.end:
                return version.segments[index:]
        return None


class MergedStates:
    """The views of one connection. Thread-safe."""

    def __init__(
        self,
        manifests: Manifests,
        connection: "duckdb.DuckDBPyConnection",
        in_memory: int = MAX_BYTES_IN_MEMORY,
    ) -> None:
        self._manifests = manifests
        self._connection = connection
        self._in_memory = in_memory
        self._snapshots: dict[str, Snapshot] = {}
        self._tables = 0
        self._lock = threading.Lock()
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")

    def show(self, manifest: Manifest, version: Version, fold: ViewFold) -> None:
        """Make this version of a view visible to queries, with every segment of its manifest."""
        with self._lock:
            known = self._snapshots.get(manifest.view)
            if known and known.files == tuple(version.files):
                return
            cursor = self._connection.cursor()
            try:
                cursor.execute("BEGIN")
                snapshot = self._refresh(cursor, manifest.view, version, fold, known)
                cursor.execute("COMMIT")
            finally:
                cursor.close()  # rolls back what was not committed
            self._snapshots[manifest.view] = snapshot

    def hide_dropped(self, views: Collection[str]) -> None:
        """Drop every view that is not in `views`."""
        with self._lock:
            for view in self._snapshots.keys() - set(views):
                with self._connection.cursor() as cursor:
                    cursor.execute(f'DROP VIEW "{view}"')
                    if table := self._snapshots.pop(view).table:
                        cursor.execute(f"DROP TABLE {table}")

    def _refresh(
        self,
        cursor: "duckdb.DuckDBPyConnection",
        view: str,
        version: Version,
        fold: ViewFold,
        known: Snapshot | None,
    ) -> Snapshot:
        later = known.segments_since(version) if known else None
        if known and later is not None and not any(segment.files for segment in later):
            table, types = known.table, known.types
        elif fold.view.appends or self._size(view, version.files) > self._in_memory:
            table, types = None, ()
            source = self._source(view, version.files)
            _define(cursor, view, finish_statement(fold, source))
        else:
            table, types = self._merge(cursor, view, version, fold, known if later else None)
        if known and known.table and known.table != table:
            cursor.execute(f"DROP TABLE {known.table}")
        return Snapshot(
            version.identity,
            _batches(version),
            tuple(version.files),
            version.position,
            table,
            types,
        )

    def _merge(
        self,
        cursor: "duckdb.DuckDBPyConnection",
        view: str,
        version: Version,
        fold: ViewFold,
        known: Snapshot | None,
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Create a table of all states: those of the known table and of the segments since."""
        later = (known.segments_since(version) if known else None) or version.segments
        files = [file for segment in later for file in segment.files]
        source = self._source(view, [*([] if known else [version.identity]), *files])
        if known:
            types = known.types
            source = f"(SELECT * FROM {known.table} UNION ALL BY NAME SELECT * FROM {source})"
        else:
            described = cursor.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            types = tuple((column, kind) for column, kind, *_ in described)
        self._tables += 1
        table = f"{_SCHEMA}.states_{self._tables}"
        cursor.execute(f"CREATE TABLE {table} AS {merge_statement(fold, source, dict(types))}")
        _define(cursor, view, finish_statement(fold, table, merged=True))
        return table, types

    def _source(self, view: str, files: list[str]) -> str:
        folder = self._manifests.view_folder(view)
        return parquet_source([str(folder / file) for file in files])

    def _size(self, view: str, files: list[str]) -> int:
        folder = self._manifests.view_folder(view)
        # A file that compaction has removed since fails the read, and the query is retried.
        sizes = ((folder / file) for file in files)
        return sum(path.stat().st_size for path in sizes if path.exists())


def _define(cursor: "duckdb.DuckDBPyConnection", view: str, statement: str) -> None:
    cursor.execute(f'CREATE OR REPLACE VIEW "{view}" AS {statement}')


def _batches(version: Version) -> tuple[str, ...]:
    return tuple(file for one in version.segments if one.layer == "batch" for file in one.files)
