"""Answers to queries: a snapshot of every view that is asked for, merged while it is read."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.serving.admission import AdmittedQuery, admit
from strom.pipelines.serving.cancellation import Cancellation, RunningStatements
from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.merged_states import IN_MEMORY, MergedStates
from strom.pipelines.views.chain import Manifest, Version
from strom.pipelines.views.fold import ViewFold, bind
from strom.pipelines.views.manifests import Manifests
from strom.pipelines.views.versions import definition_of

if TYPE_CHECKING:
    import pyarrow as pa

_ATTEMPTS = 3


class QueryEngine:
    """Answers SQL over views. Several threads may ask at once."""

    def __init__(
        self, manifests: Manifests, *, memory: str = "512MB", in_memory: int = IN_MEMORY
    ) -> None:
        self._manifests = manifests
        self._connection = connect(memory=memory)
        self._folds: dict[tuple[str, int, str], ViewFold] = {}
        self._lock = threading.Lock()
        self._running = RunningStatements()
        self._states = MergedStates(manifests, self._connection, in_memory)
        self._shut_off_files()

    @property
    def running(self) -> int:
        """How many statements are being executed."""
        return len(self._running)

    def query(
        self, sql: str, values: Sequence[str] = (), cancellation: Cancellation | None = None
    ) -> "pa.Table":
        """The answer to a SELECT, with values for its question marks.

        UserError if it is not one, or names what is not there. StatementCancelled if it was cancelled,
        by its `cancellation` or because the server is stopped.
        """
        cancellation = cancellation or Cancellation()
        with self._running.listed(cancellation):
            return self._answer(sql, values, cancellation)

    def cancel_running(self) -> None:
        """Cancel the statements being executed; call it again until all have ended."""
        self._running.cancel_all()

    def _answer(self, sql: str, values: Sequence[str], cancellation: Cancellation) -> "pa.Table":
        import duckdb

        for attempt in range(_ATTEMPTS):
            cursor = self._connection.cursor()
            try:
                query = admit(cursor, sql)
                # Outside the transaction, on a cursor of their own: refreshing states writes tables.
                for manifest in self._views_of(query):
                    self._show(manifest)
                with cancellation.interrupting(cursor):
                    cursor.execute("BEGIN TRANSACTION READ ONLY")
                    return cursor.sql(query.statement, params=list(values)).to_arrow_table()
            except duckdb.IOException:
                # A file has gone since the manifest was read: read it again.
                if attempt == _ATTEMPTS - 1:
                    raise
            except duckdb.CatalogException as error:
                known = ", ".join(self._manifests.names()) or "none yet; start with: strom run"
                raise UserError(f"{_first_line(error)} There is: {known}.") from None
            except duckdb.Error as error:
                cancellation.check()
                raise UserError(_first_line(error)) from None
            finally:
                cursor.close()  # which ends the transaction
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Cancel what is running, and let the connection go."""
        self._running.close()
        self._folds.clear()
        self._connection.close()

    def _views_of(self, query: AdmittedQuery) -> list[Manifest]:
        names = self._manifests.names()
        self._states.hide_dropped(names)
        named = [name for name in names if query.reads_catalog or name.casefold() in query.tables]
        found = [self._manifests.read(name) for name in named]
        return [manifest for manifest in found if manifest is not None and manifest.active]

    def _show(self, manifest: Manifest) -> None:
        version = manifest.active_version
        assert version is not None  # noqa: S101 - see _views_of
        self._states.show(manifest, version, self._fold(manifest, version))

    def _fold(self, manifest: Manifest, version: Version) -> ViewFold:
        key = (manifest.view, version.number, version.fingerprint)
        with self._lock:
            if key not in self._folds:
                self._folds[key] = fold_of(self._manifests, manifest, version)
            return self._folds[key]

    def _shut_off_files(self) -> None:
        """A query can read views, and no other file of this machine."""
        self._manifests.folder.mkdir(parents=True, exist_ok=True)
        folder = str(Path(self._manifests.folder).resolve()).replace("'", "''")
        self._connection.execute(f"SET allowed_directories = ['{folder}/']")
        self._connection.execute(
            "SET python_enable_replacements = false; "
            "SET enable_external_access = false; SET lock_configuration = true"
        )


def fold_of(manifests: Manifests, manifest: Manifest, version: Version) -> ViewFold:
    """The fold of a stored version, from its definition and the types that Spark found."""
    view = definition_of(manifests, manifest.view, version)
    columns = dict(version.output)
    # Types of expressions decide how states are made; merging them needs the states' names only.
    return bind(view, columns, lambda text: "double")


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0].partition(": ")[2] or text
