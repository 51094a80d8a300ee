"""Parquet tables: files in folders, and a chain of small commit files beside them.

A commit is a file `_strom/CONNECTOR+TOPIC+PARTITION/FIRST.json`, named by its first offset, that can be
written only once: it contains the next offset and the files that it added. The planned files are stored
before (`….intent`), so that the files of a crashed attempt are removed when the partition is opened
again. Readers (Spark, DuckDB, Arrow) ignore folders that start with an underscore.

A chain belongs to one topic, whose id is in its file `topic.id`: a topic that was deleted and recreated
gets another chain, `CONNECTOR+TOPIC+PARTITION+ID`. The columns that all files share are stored beside
the chains.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest

import pyarrow as pa
import pyarrow.parquet as pq

from strom.connect.api import RetriableError, SinkContext, TopicPartition
from strom.connect.connectors.lake.evolution import PARQUET, TableColumns, typed_fields
from strom.connect.connectors.lake.files import AlreadyExistsError, FileStore
from strom.connect.connectors.lake.settings import LakeSettings
from strom.connect.connectors.lake.tables import (
    DataFile,
    FencedError,
    LakeTable,
    PartitionBatch,
    fit_again,
    plan_files,
)

_COMMIT, _INTENT, _TOPIC_ID = ".json", ".intent", "topic.id"
_SCHEMAS, _SCHEMA = "schema", ".arrow"
_ATTEMPTS = 50
"""Other tasks may extend the schema at the same time: the maximum number of attempts."""
_MOST_FILES = 1000
"""The number of files that are read for the columns of a table of an older strom."""
_KEPT_COMMITS = 1000
"""The number of commit files to keep; an owner that is further behind was fenced long ago."""


class ParquetTable(LakeTable):
    """A Parquet table, with a chain of commits for each partition."""

    def __init__(
        self, files: FileStore, folder: str, context: SinkContext, settings: LakeSettings
    ) -> None:
        super().__init__(files, folder, context, settings)
        self._chains: dict[TopicPartition, str] = {}
        self._schemas = ParquetSchemas(files, folder)
        self._noted: set[str] = set()
        """The chains that are known to have their topic's id."""

    def position(self, partition: TopicPartition) -> int | None:
        """The end of the last commit; removes the files of an unfinished one."""
        chain = self._chains[partition] = self._open_chain(partition)
        names = self._files.names(chain)
        commits = [name for name in names if name.endswith(_COMMIT)]
        for name in names:
            if name.endswith(_INTENT):
                self._clear_up(f"{chain}/{name.removesuffix(_INTENT)}")
        for name in commits[:-_KEPT_COMMITS]:
            self._files.remove(f"{chain}/{name}")
        return self._end(chain, commits)

    def _open_chain(self, partition: TopicPartition) -> str:
        """The chain of the current topic; one that strom 0.1.0 has written gets the topic's id."""
        first = f"{self._folder}/_strom/{self._name(partition)}"
        topic_id = self._context.topic_id(partition.topic)
        if topic_id is None:
            return first
        noted = self._files.read(f"{first}/{_TOPIC_ID}")
        if noted is None:
            commits = [name for name in self._files.names(first) if name.endswith(_COMMIT)]
            end = self._end(first, commits)
            if end is not None:
                self._check_adoption(end, partition)
                self._note_topic(first, topic_id)
            return first
        return first if noted == topic_id.encode() else f"{first}+{topic_id}"

    def _note_topic(self, chain: str, topic_id: str) -> None:
        with contextlib.suppress(AlreadyExistsError):
            self._files.write_once(f"{chain}/{_TOPIC_ID}", topic_id.encode())
        self._noted.add(chain)

    def _end(self, chain: str, commits: Sequence[str]) -> int | None:
        if not commits:
            return None
        last = self._files.read(f"{chain}/{commits[-1]}") or b"{}"
        return int(json.loads(last)["next"])

    def columns(self) -> TableColumns:
        """The columns that all files share."""
        return self._schemas.columns()

    def store(self, batches: Mapping[TopicPartition, PartitionBatch]) -> TableColumns:
        """Write the files of each partition and commit them, one partition after the other."""
        tables = [batch.rows for batch in batches.values() if batch.rows is not None]
        columns = self._schemas.extend([table.schema for table in tables])
        for partition, batch in batches.items():
            if batch.rows is not None:
                batch = batch._replace(rows=fit_again(batch.rows, columns))
            self._store(partition, batch)
        return columns

    def _store(self, partition: TopicPartition, batch: PartitionBatch) -> None:
        chain = self._chains[partition]
        name = f"{chain}/{batch.first:020d}"
        topic_id = self._context.topic_id(partition.topic)
        if topic_id is not None and chain not in self._noted:
            self._note_topic(chain, topic_id)
        planned: list[DataFile] = []
        if batch.rows is not None:
            prefix = f"{self._name(partition)}+{batch.first:020d}"
            planned = plan_files(prefix, batch.rows, self._settings.levels)
        noted = {"next": batch.next, "files": [file.path for file in planned]}
        if planned:
            self._clear_up(name)
            self._files.write(f"{name}{_INTENT}", json.dumps(noted).encode())
        for file in planned:
            self._write_file(file)
        try:
            self._files.write_once(f"{name}{_COMMIT}", json.dumps(noted).encode())
        except AlreadyExistsError:
            for file in planned:
                self._files.remove(f"{self._folder}/{file.path}")
            raise FencedError(
                f"Another task has stored {partition.topic}-{partition.partition} "
                f"from offset {batch.first}."
            ) from None
        if planned:
            self._files.remove(f"{name}{_INTENT}")

    def _clear_up(self, name: str) -> None:
        """Remove the files of an unfinished attempt at this commit, if there was one."""
        intent = self._files.read(f"{name}{_INTENT}")
        if intent is None:
            return
        if self._files.read(f"{name}{_COMMIT}") is None:
            for path in json.loads(intent)["files"]:
                self._files.remove(f"{self._folder}/{path}")
        self._files.remove(f"{name}{_INTENT}")

    def _name(self, partition: TopicPartition) -> str:
        return f"{self._context.connector}+{partition.topic}+{partition.partition}"


class ParquetSchemas:
    """The columns of a table: versions of its schema, each written once, beside the commits.

    All files of a folder must have the same column types, no matter which task, connector or restart
    writes them. So the schema is stored in `_strom/schema/VERSION.arrow` before a file uses it. Two
    tasks that extend it at once compete for the next version; the loser reads the winner's first.
    """

    def __init__(self, files: FileStore, table: str) -> None:
        self._files = files
        self._table = table
        self._commits = f"{table}/_strom"
        self._folder = f"{self._commits}/{_SCHEMAS}"

    def columns(self) -> TableColumns:
        return self._newest()[1]

    def extend(self, schemas: Sequence[pa.Schema]) -> TableColumns:
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
                self._files.write_once(f"{self._folder}/{version + 1:020d}{_SCHEMA}", data)
            except AlreadyExistsError:
                continue
            return TableColumns.of_table(PARQUET, columns.schema)
        raise RetriableError(
            f"Changing the columns of {self._table} failed {_ATTEMPTS} times because of "
            "concurrent writers."
        )

    def _newest(self) -> tuple[int, TableColumns]:
        """The newest version, 0 if there is none yet, and its columns."""
        names = [name for name in self._files.names(self._folder) if name.endswith(_SCHEMA)]
        if not names:
            return 0, self._of_files()
        data = self._files.read(f"{self._folder}/{names[-1]}") or b""
        schema = pa.ipc.read_schema(pa.BufferReader(data))
        return int(names[-1].removesuffix(_SCHEMA)), TableColumns.of_table(PARQUET, schema)

    def _of_files(self) -> TableColumns:
        """The columns of a table without stored schemas: the newest file's types take precedence."""
        columns = TableColumns.of_table(PARQUET, [])
        for path in islice(self._committed_files(), _MOST_FILES):
            file = self._files.open(f"{self._table}/{path}")
            if file is not None:  # else the user has compacted or removed it
                with file:
                    columns = columns.with_new_fields(pq.read_schema(file))
        return TableColumns.of_table(PARQUET, typed_fields(columns.schema))

    def _committed_files(self) -> Iterator[str]:
        """The files of all existing commits of all partitions, newest first."""
        chains = [name for name in self._files.names(self._commits) if name != _SCHEMAS]
        commits = [self._newest_commits(f"{self._commits}/{chain}") for chain in chains]
        for round_of_chains in zip_longest(*commits):
            for commit in filter(None, round_of_chains):
                yield from json.loads(self._files.read(commit) or b'{"files": []}')["files"]

    def _newest_commits(self, chain: str) -> list[str]:
        names = [name for name in self._files.names(chain) if name.endswith(_COMMIT)]
        return [f"{chain}/{name}" for name in reversed(names)]
