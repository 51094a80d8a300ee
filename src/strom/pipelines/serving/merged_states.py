"""Views in DuckDB's memory: states merged once, and again only with what has come since.

A query then reads one small table per view instead of many files. The table and the view over it are
replaced in one transaction, so that a query that runs meanwhile sees the old picture or the new one.
What is too large for memory stays in its files, and is merged while it is read.
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strom.pipelines.offsets import Offsets
from strom.pipelines.serving.connections import parquet_source
from strom.pipelines.serving.statements import finish_statement, merge_statement
from strom.pipelines.views.chain import Manifest, Version, ViewSegment
from strom.pipelines.views.fold import ViewFold
from strom.pipelines.views.manifests import Manifests

if TYPE_CHECKING:
    import duckdb

IN_MEMORY = 32_000_000
"""Bytes of files up to which a view's states are kept in memory."""
_SCHEMA = "strom_states"


@dataclass(frozen=True)
class Snapshot:
    """What of a version a connection has before it."""

    identity: str
    """Of the version. Its number does not suffice: a view that was dropped begins with 1 again."""
    batches: tuple[str, ...]
    files: tuple[str, ...]
    position: Offsets
    table: str | None
    types: tuple[tuple[str, str], ...] = ()

    def later(self, version: Version) -> tuple[ViewSegment, ...] | None:
        """The segments that have come since; None if the states must be merged from the beginning.

        Compaction changes files and not states. A batch is another computation: it is read anew.
        """
        same = (version.identity, _batches(version)) == (self.identity, self.batches)
        if not same or self.table is None:
            return None
        if self.position in version.boundaries:
            bounds = version.boundaries
            return version.segments[len(bounds) - 1 - bounds[::-1].index(self.position) :]
        for index, segment in enumerate(version.segments):
            # One without states has grown since: whatever part of it was known, nothing was missed.
            if segment.is_empty and segment.start <= self.position <= segment.end:
                return version.segments[index:]
        return None


class MergedStates:
    """The views of one connection; several threads may ask for them."""

    def __init__(
        self,
        manifests: Manifests,
        connection: "duckdb.DuckDBPyConnection",
        in_memory: int = IN_MEMORY,
    ) -> None:
        self._manifests = manifests
        self._connection = connection
        self._in_memory = in_memory
        self._pictures: dict[str, Snapshot] = {}
        self._tables = 0
        self._lock = threading.Lock()
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")

    def show(self, manifest: Manifest, version: Version, fold: ViewFold) -> None:
        """Let queries see this version of a view, with all that its manifest lists."""
        with self._lock:
            known = self._pictures.get(manifest.view)
            if known and known.files == tuple(version.files):
                return
            cursor = self._connection.cursor()
            try:
                cursor.execute("BEGIN")
                picture = self._drawn(cursor, manifest.view, version, fold, known)
                cursor.execute("COMMIT")
            finally:
                cursor.close()  # which rolls back what was not committed
            self._pictures[manifest.view] = picture

    def hide_dropped(self, views: Collection[str]) -> None:
        """Let queries see no view but these."""
        with self._lock:
            for view in self._pictures.keys() - set(views):
                with self._connection.cursor() as cursor:
                    cursor.execute(f'DROP VIEW "{view}"')
                    if table := self._pictures.pop(view).table:
                        cursor.execute(f"DROP TABLE {table}")

    def _drawn(
        self,
        cursor: "duckdb.DuckDBPyConnection",
        view: str,
        version: Version,
        fold: ViewFold,
        known: Snapshot | None,
    ) -> Snapshot:
        later = known.later(version) if known else None
        if known and later is not None and not any(segment.files for segment in later):
            table, types = known.table, known.types
        elif fold.view.appends or self._size(view, version.files) > self._in_memory:
            table, types = None, ()
            source = self._source(view, version.files)
            _define(cursor, view, finish_statement(fold, source))
        else:
            table, types = self._merged(cursor, view, version, fold, known if later else None)
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

    def _merged(
        self,
        cursor: "duckdb.DuckDBPyConnection",
        view: str,
        version: Version,
        fold: ViewFold,
        known: Snapshot | None,
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        """A new table of all states: those of the known table and of what has come since."""
        later = (known.later(version) if known else None) or version.segments
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
        # A file that has gone since is missed when it is read.
        sizes = ((folder / file) for file in files)
        return sum(path.stat().st_size for path in sizes if path.exists())


def _define(cursor: "duckdb.DuckDBPyConnection", view: str, statement: str) -> None:
    cursor.execute(f'CREATE OR REPLACE VIEW "{view}" AS {statement}')


def _batches(version: Version) -> tuple[str, ...]:
    return tuple(file for one in version.segments if one.layer == "batch" for file in one.files)
