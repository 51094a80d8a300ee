"""The columns of a Parquet table: versions of its schema, each written once, beside the commits.

All files of a folder must have the same column types, no matter which task, connector or restart writes
them. So the schema is stored in `_strom/schema/VERSION.arrow` before a file uses it. Two tasks that
extend it at once compete for the next version; the loser reads the winner's version first.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from strom.connect.api import RetriableError
from strom.connect.connectors.lake.evolution import PARQUET, TableColumns, typed_fields
from strom.connect.connectors.lake.files import AlreadyExistsError, FileStore

if TYPE_CHECKING:
    import pyarrow as pa

_FOLDER, _SUFFIX = "schema", ".arrow"
_ATTEMPTS = 50
"""Other tasks may extend the schema at the same time: the maximum number of attempts."""
_MOST_FILES = 1000
"""The number of files that are read for the columns of a table of an older strom."""


class ParquetSchemas:
    """The versions of one table's schema."""

    def __init__(self, files: FileStore, table: str) -> None:
        self._files = files
        self._table = table
        self._commits = f"{table}/_strom"
        self._folder = f"{self._commits}/{_FOLDER}"

    def columns(self) -> TableColumns:
        return self._newest()[1]

    def extend(self, schemas: "Sequence[pa.Schema]") -> TableColumns:
        """Store what these rows add, if anything; returns the table's columns."""
        for _ in range(_ATTEMPTS):
            version, stored = self._newest()
            columns = stored
            for schema in schemas:
                columns = columns.with_rows(schema)
            if not schemas or (columns.schema == stored.schema and version > 0):
                return stored
            data = columns.schema.serialize().to_pybytes()
            try:
                self._files.write_once(f"{self._folder}/{version + 1:020d}{_SUFFIX}", data)
            except AlreadyExistsError:
                continue
            return TableColumns.of_table(PARQUET, columns.schema)
        raise RetriableError(
            f"Changing the columns of {self._table} failed {_ATTEMPTS} times because of "
            "concurrent writers."
        )

    def _newest(self) -> tuple[int, TableColumns]:
        """The newest version, 0 if there is none yet, and its columns."""
        import pyarrow as pa

        names = [name for name in self._files.names(self._folder) if name.endswith(_SUFFIX)]
        if not names:
            return 0, self._of_files()
        data = self._files.read(f"{self._folder}/{names[-1]}") or b""
        schema = pa.ipc.read_schema(pa.BufferReader(data))
        return int(names[-1].removesuffix(_SUFFIX)), TableColumns.of_table(PARQUET, schema)

    def _of_files(self) -> TableColumns:
        """The columns of a table without stored schemas: the newest file's types take precedence."""
        import pyarrow.parquet as pq

        columns = TableColumns.of_table(PARQUET, [])
        for path in islice(self._committed_files(), _MOST_FILES):
            file = self._files.open(f"{self._table}/{path}")
            if file is not None:  # else the user has compacted or removed it
                with file:
                    columns = columns.with_new_fields(pq.read_schema(file))
        return TableColumns.of_table(PARQUET, typed_fields(columns.schema))

    def _committed_files(self) -> Iterator[str]:
        """The files of all existing commits of all partitions, newest first."""
        chains = [name for name in self._files.names(self._commits) if name != _FOLDER]
        commits = [self._newest_commits(f"{self._commits}/{chain}") for chain in chains]
        for round_of_chains in zip_longest(*commits):
            for commit in filter(None, round_of_chains):
                yield from json.loads(self._files.read(commit) or b'{"files": []}')["files"]

    def _newest_commits(self, chain: str) -> list[str]:
        names = [name for name in self._files.names(chain) if name.endswith(".json")]
        return [f"{chain}/{name}" for name in reversed(names)]
