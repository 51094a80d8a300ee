"""Executes queries over a consistent snapshot of each view that they read."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from strom.model.errors import UserError
from strom.pipelines.serving.admission import AdmittedQuery, admit
from strom.pipelines.serving.cancellation import Cancellation, RunningStatements
from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.limits import BATCH_ROWS, QueryLimits, ResultFiles
from strom.pipelines.serving.merged_states import MAX_BYTES_IN_MEMORY, MergedStates
from strom.pipelines.serving.spill_folder import SpillFolder
from strom.pipelines.views.fold import ViewFold, bind
from strom.pipelines.views.manifests import Manifest, Manifests, Version
from strom.pipelines.views.versions import definition_of

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa

_ATTEMPTS = 3
Result = TypeVar("Result")


class QueryEngine:
    """Executes SQL over views. Thread-safe."""

    def __init__(
        self,
        manifests: Manifests,
        *,
        limits: QueryLimits = QueryLimits(),  # noqa: B008 - it is frozen
        in_memory: int = MAX_BYTES_IN_MEMORY,
    ) -> None:
        self._manifests = manifests
        self._limits = limits
        self._spill = SpillFolder(Path(manifests.folder).resolve().parent / "spill")
        spill = self._spill.path
        self._connection = connect(
            memory=f"{limits.memory_bytes}B", spill=spill, spill_bytes=limits.spill_bytes
        )
        self.results = ResultFiles(spill, limits)
        self._folds: dict[tuple[str, int, str], ViewFold] = {}
        self._lock = threading.Lock()
        self._running = RunningStatements()
        self._states = MergedStates(manifests, self._connection, in_memory)
        self._restrict_file_access()

    @property
    def running(self) -> int:
        """The number of statements in flight."""
        return len(self._running)

    def query(
        self, sql: str, values: Sequence[str] = (), cancellation: Cancellation | None = None
    ) -> "pa.Table":
        """The result of a SELECT statement, with values for its placeholders.

        UserError if it is not a SELECT, or references an unknown name. StatementCancelled if it is
        cancelled, by its `cancellation` or because the engine is closed.
        """
        cancellation = cancellation or Cancellation()
        with self._running.track(cancellation):
            return self._execute(sql, values, cancellation, lambda found: found.to_arrow_table())

    def query_within_limits(
        self,
        sql: str,
        take: "Callable[[pa.Schema, Iterator[pa.RecordBatch]], Result]",
        values: Sequence[str] = (),
        cancellation: Cancellation | None = None,
    ) -> Result:
        """What `take` makes of a result, which it gets in batches as they are computed.

        UserError and StatementCancelled as from `query`, and UserError if it exceeds a limit. A query
        may be retried, and then `take` is called again.
        """
        limits = self._limits
        cancellation = cancellation or Cancellation()

        def take_batches(found: "duckdb.DuckDBPyRelation") -> Result:
            reader = found.to_arrow_reader(BATCH_ROWS)
            return take(reader.schema, limits.count_rows(_raising_duckdb_errors(reader)))

        with (
            self._running.track(cancellation),
            cancellation.cancelling_after(limits.seconds, limits.timed_out()),
        ):
            return self._execute(sql, values, cancellation, take_batches)

    def cancel_running(self) -> None:
        """Cancel all statements in flight. Call again until all have ended."""
        self._running.cancel_all()

    def _execute(
        self,
        sql: str,
        values: Sequence[str],
        cancellation: Cancellation,
        take: "Callable[[duckdb.DuckDBPyRelation], Result]",
    ) -> Result:
        import duckdb

        for attempt in range(_ATTEMPTS):
            cursor = self._connection.cursor()
            try:
                query = admit(cursor, sql)
                # Outside of the read-only transaction, on another cursor: a refresh writes tables.
                for manifest in self._views_of(query):
                    self._refresh(manifest)
                with cancellation.interrupting(cursor):
                    cursor.execute("BEGIN TRANSACTION READ ONLY")
                    return take(cursor.sql(query.statement, params=list(values)))
            except duckdb.IOException:
                # Compaction has removed a file since the manifest was read: read the manifest again.
                if attempt == _ATTEMPTS - 1:
                    raise
            except duckdb.CatalogException as error:
                known = ", ".join(self._manifests.names()) or "none yet; start with: strom run"
                raise UserError(f"{_first_line(error)} Known views: {known}.") from None
            except (duckdb.OutOfMemoryException, MemoryError):
                cancellation.check()
                raise self._limits.out_of_memory() from None
            except duckdb.Error as error:
                cancellation.check()
                raise UserError(_first_line(error)) from None
            finally:
                cursor.close()  # ends the transaction
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Cancel statements in flight, and close the connection."""
        self._running.close()
        self._folds.clear()
        self._connection.close()
        self._spill.close()

    def _views_of(self, query: AdmittedQuery) -> list[Manifest]:
        names = self._manifests.names()
        self._states.hide_dropped(names)
        named = [name for name in names if query.reads_catalog or name.casefold() in query.tables]
        found = [self._manifests.read(name) for name in named]
        return [manifest for manifest in found if manifest is not None and manifest.active]

    def _refresh(self, manifest: Manifest) -> None:
        version = manifest.active_version
        assert version is not None  # noqa: S101 - see _views_of
        self._states.show(manifest, version, self._fold(manifest, version))

    def _fold(self, manifest: Manifest, version: Version) -> ViewFold:
        key = (manifest.view, version.number, version.fingerprint)
        with self._lock:
            if key not in self._folds:
                self._folds[key] = fold_of(self._manifests, manifest, version)
            return self._folds[key]

    def _restrict_file_access(self) -> None:
        """Deny queries every file outside of the views' folder."""
        self._manifests.folder.mkdir(parents=True, exist_ok=True)
        folder = str(Path(self._manifests.folder).resolve()).replace("'", "''")
        self._connection.execute(f"SET allowed_directories = ['{folder}/']")
        self._connection.execute(
            "SET python_enable_replacements = false; "
            "SET enable_external_access = false; SET lock_configuration = true"
        )


def fold_of(manifests: Manifests, manifest: Manifest, version: Version) -> ViewFold:
    """The fold of a stored version, from its definition and the column types that Spark inferred."""
    view = definition_of(manifests, manifest.view, version)
    # The types of expressions only matter to compute states; merging needs only the names of states.
    return bind(view, dict(version.output), lambda text: "double")


def _raising_duckdb_errors(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The same batches. Arrow's reader turns every error of DuckDB into an OSError: turn it back.

    Only here, so that an OSError of the code that takes the batches, such as a full disk, stays one.
    """
    import duckdb

    try:
        yield from batches
    except OSError as error:
        kind = str(error).partition(":")[0]
        kinds = {"IO Error": duckdb.IOException, "Out of Memory Error": duckdb.OutOfMemoryException}
        raise kinds.get(kind, duckdb.Error)(str(error)) from None


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0].partition(": ")[2] or text


@dataclass(frozen=True)
class ViewReader:
    """The current rows of a view in Python: `load_project().view("page_minutes").to_pandas()`."""

    manifests: Manifests
    name: str

    def to_arrow(self, where: str | None = None) -> "pa.Table":
        """All rows, or those that match a condition in SQL."""
        self.manifests.existing(self.name)
        condition = f" WHERE {where}" if where else ""
        with closing(QueryEngine(self.manifests)) as engine:
            return engine.query(f'SELECT * FROM "{self.name}"{condition}')

    def to_pandas(self, where: str | None = None) -> "pd.DataFrame":
        """The same rows as a pandas DataFrame."""
        return self.to_arrow(where).to_pandas()
