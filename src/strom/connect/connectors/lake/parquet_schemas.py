"""The columns of a Parquet table: versions of its schema, each written once, beside the commits.

All files of a folder must agree on the types of their columns, whichever task, connector or restart
writes them. So the schema is recorded in `_strom/schema/VERSION.arrow` before a file uses it. Two tasks
that extend it at once both aim at the next version; one of them gets it, the other reads it first.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from strom.connect.api import RetriableError
from strom.connect.connectors.lake.evolution import PARQUET, TableColumns, typed_fields
from strom.connect.connectors.lake.files import AlreadyThereError, Files

if TYPE_CHECKING:
    import pyarrow as pa

_FOLDER, _SUFFIX = "schema", ".arrow"
_ATTEMPTS = 50
"""Other tasks may extend the schema at the same time: so often the next version is tried."""
_MOST_FILES = 1000
"""So many files of a table that an older strom has begun are asked for their columns."""


class ParquetSchemas:
    """The versions of one table's schema."""

    def __init__(self, files: Files, table: str) -> None:
        self._files = files
        self._table = table
        self._commits = f"{table}/_strom"
        self._folder = f"{self._commits}/{_FOLDER}"

    def columns(self) -> TableColumns:
        return self._newest()[1]

    def extend(self, schemas: "Sequence[pa.Schema]") -> TableColumns:
        """Record what these rows add, if anything; returns the columns that the table then has."""
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
            except AlreadyThereError:
                continue
            return TableColumns.of_table(PARQUET, columns.schema)
        raise RetriableError(
            f"Others changed the columns of {self._table} all the time: {_ATTEMPTS} attempts failed."
        )

    def _newest(self) -> tuple[int, TableColumns]:
        """The number of the newest version, 0 if there is none yet, and its columns."""
        import pyarrow as pa

        names = [name for name in self._files.names(self._folder) if name.endswith(_SUFFIX)]
        if not names:
            return 0, self._of_files()
        data = self._files.read(f"{self._folder}/{names[-1]}") or b""
        schema = pa.ipc.read_schema(pa.BufferReader(data))
        return int(names[-1].removesuffix(_SUFFIX)), TableColumns.of_table(PARQUET, schema)

    def _of_files(self) -> TableColumns:
        """The columns of a table from before schemas were recorded: the newest file's types count."""
        import pyarrow.parquet as pq

        columns = TableColumns.of_table(PARQUET, [])
        for path in islice(self._committed_files(), _MOST_FILES):
            file = self._files.open(f"{self._table}/{path}")
            if file is not None:  # else it was compacted or removed by the user
                with file:
                    columns = columns.with_new_fields(pq.read_schema(file))
        return TableColumns.of_table(PARQUET, typed_fields(columns.schema))

    def _committed_files(self) -> Iterator[str]:
        """The files of all commits that are kept, of every partition, the newest first."""
        chains = [name for name in self._files.names(self._commits) if name != _FOLDER]
        commits = [self._newest_commits(f"{self._commits}/{chain}") for chain in chains]
        for round_of_chains in zip_longest(*commits):
            for commit in filter(None, round_of_chains):
                yield from json.loads(self._files.read(commit) or b'{"files": []}')["files"]

    def _newest_commits(self, chain: str) -> list[str]:
        names = [name for name in self._files.names(chain) if name.endswith(".json")]
        return [f"{chain}/{name}" for name in reversed(names)]
