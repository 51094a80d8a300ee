"""Delta tables: a commit to the table's log adds files together with the offsets.

Delta's log accepts each version once. A commit targets exactly the version after the one whose offsets
were checked, so two owners of a partition cannot both store the same records. The topic's id is stored
with the offset: a topic that was deleted and recreated starts from its beginning.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Schema, Transaction
from deltalake import DeltaTable as Table
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction

from strom.connect.api import ConnectError, RetriableError, TopicPartition
from strom.connect.connectors.lake.evolution import DELTA, TableColumns
from strom.connect.connectors.lake.settings import S3_SCHEME, LakeSettings
from strom.connect.connectors.lake.tables import (
    DataFile,
    FencedError,
    LakeTable,
    PartitionBatch,
    fit_again,
    plan_files,
)

_ATTEMPTS = 50
"""Other tasks commit to the same table: the maximum number of attempts for a commit."""


class DeltaTable(LakeTable):
    """A Delta table, whose log also holds the offsets."""

    @cached_property
    def _uri(self) -> str:
        return f"{self._settings.path.rstrip('/')}/{self._folder}"

    @cached_property
    def _options(self) -> dict[str, str] | None:
        return storage_options(self._settings)

    def position(self, partition: TopicPartition) -> int | None:
        """The partition's offset in the table's log."""
        table = self._open()
        stored = None if table is None else table.transaction_version(self._mark(partition))
        if table is None or stored is None or self._is_same_topic(table, partition):
            return stored
        if table.transaction_version(self._topic_mark(partition)) is not None:
            return None
        # strom 0.1.0 stored it without an id: it is adopted for this topic.
        self._check_adoption(stored, partition)
        self._commit([], [], {partition: PartitionBatch(None, stored, stored)})
        return stored

    def columns(self) -> TableColumns:
        """The columns of the table's schema, without the time levels."""
        return self._columns(self._open())

    def store(self, batches: Mapping[TopicPartition, PartitionBatch]) -> TableColumns:
        """Write the files of all partitions, and add them in one commit."""
        tables = [batch.rows for batch in batches.values() if batch.rows is not None]
        planned: list[DataFile] = []
        if tables:
            rows, columns = self._evolved(pa.concat_tables(tables))
            planned = plan_files(self._context.connector, rows, self._settings.levels)
        else:
            table = self._open()
            columns = self._columns(table)
            if table is None:
                return columns  # no table to store the offset in; these records are read again
        sizes = [self._write_file(file) for file in planned]
        # After a failure from here on, the files stay: a commit whose response was lost may list them.
        # Files that no version lists are harmless, and Delta's VACUUM removes them.
        self._commit(planned, sizes, batches)
        return columns

    def _commit(
        self,
        planned: list[DataFile],
        sizes: list[int],
        batches: Mapping[TopicPartition, PartitionBatch],
    ) -> None:
        now = time.time_ns() // 1_000_000
        added: list[Any] = [
            AddAction(
                file.path,
                size,
                file.partition,
                now,
                True,
                json.dumps({"numRecords": file.rows.num_rows}),
            )
            for file, size in zip(planned, sizes, strict=True)
        ]
        marks = [Transaction(self._mark(one), batch.next) for one, batch in batches.items()]
        for one in batches:
            number = self._topic_number(one)
            if number is not None:
                marks.append(Transaction(self._topic_mark(one), number))
        for _ in range(_ATTEMPTS):
            table = self._open()
            if table is None:
                raise ConnectError(f"The table {self._uri} was removed during the write.")
            self._check_owner(table, batches)
            try:
                table.create_write_transaction(
                    added,
                    "append",
                    table.schema(),
                    list(self._settings.levels),
                    commit_properties=CommitProperties(
                        app_transactions=marks, max_commit_retries=0
                    ),
                )
            except CommitFailedError:
                continue
            except OSError as error:
                raise self._away(error) from None
            self._files.sync(self._log_entry(table.version() + 1))
            return
        raise RetriableError(
            f"Commit to {self._uri} failed {_ATTEMPTS} times because of concurrent writers."
        )

    def _check_owner(self, table: Table, batches: Mapping[TopicPartition, PartitionBatch]) -> None:
        for partition, batch in batches.items():
            stored = table.transaction_version(self._mark(partition))
            known = table.transaction_version(self._topic_mark(partition))
            is_other = known is not None and not self._is_same_topic(table, partition)
            if stored is not None and stored > batch.first and not is_other:
                raise FencedError(
                    f"Another task has stored {partition.topic}-{partition.partition} "
                    f"up to offset {stored}; this task expected {batch.first}."
                )

    def _evolved(self, rows: pa.Table) -> tuple[pa.Table, TableColumns]:
        """Add the columns of these rows to the table; returns the rows in its types.

        Other tasks may do so at the same time: every attempt starts from the table's current columns.
        """
        for _ in range(_ATTEMPTS):
            table = self._open()
            columns = self._columns(table).with_rows(rows.schema)
            rows = fit_again(rows, columns)
            if table is None:
                self._create(columns)
            elif columns.schema == columns.stored or self._add_columns(table, columns):
                return rows, TableColumns.of_table(DELTA, columns.schema)
        raise RetriableError(
            f"Adding columns to {self._uri} failed {_ATTEMPTS} times because of concurrent writers."
        )

    def _create(self, columns: TableColumns) -> None:
        """Create the table with these columns and the time levels; another task may be faster."""
        levels = [(level, pa.string()) for level in self._settings.levels]
        try:
            Table.create(
                self._uri,
                pa.schema([*columns.schema, *levels]),
                mode="ignore",
                partition_by=list(self._settings.levels),
                configuration={"delta.enableDeletionVectors": "false"},
                storage_options=self._options,
            )
        except CommitFailedError:
            pass  # another task has created it concurrently
        except OSError as error:
            raise self._away(error) from None
        self._files.sync(self._log_entry(0))

    def _add_columns(self, table: Table, columns: TableColumns) -> bool:
        """Add columns and nested fields; False if another task has changed the table meanwhile."""
        stored = list(columns.stored)
        changed = [field for field in columns.schema if field not in stored]
        try:
            # add_columns merges a struct with the existing one, at any depth.
            table.alter.add_columns(Schema.from_arrow(pa.schema(changed)).fields)
        except CommitFailedError:
            return False
        except OSError as error:
            raise self._away(error) from None
        self._files.sync(self._log_entry(table.version()))
        return True

    def _columns(self, table: Table | None) -> TableColumns:
        schema = [] if table is None else pa.schema(table.schema().to_arrow())
        levels = self._settings.levels
        return TableColumns.of_table(DELTA, [field for field in schema if field.name not in levels])

    def _open(self) -> Table | None:
        try:
            return Table(self._uri, storage_options=self._options)
        except TableNotFoundError:
            return None
        except OSError as error:
            raise self._away(error) from None

    def _away(self, error: OSError) -> RetriableError:
        return RetriableError(f"The table {self._uri} is not reachable: {error}")

    def _log_entry(self, version: int) -> str:
        return f"{self._folder}/_delta_log/{version:020d}.json"

    def _mark(self, partition: TopicPartition) -> str:
        return f"strom/{self._context.connector}/{partition.topic}/{partition.partition}"

    def _topic_mark(self, partition: TopicPartition) -> str:
        return f"{self._mark(partition)}/topic-id"

    def _topic_number(self, partition: TopicPartition) -> int | None:
        """The topic's id as Delta's log can store it: a number of 63 bits."""
        topic_id = self._context.topic_id(partition.topic)
        if topic_id is None:
            return None
        return int.from_bytes(hashlib.sha256(topic_id.encode()).digest()[:8], "big") >> 1

    def _is_same_topic(self, table: Table, partition: TopicPartition) -> bool:
        """Whether the stored offset belongs to the current topic, as far as this is known."""
        number = self._topic_number(partition)
        return number is None or number == table.transaction_version(self._topic_mark(partition))


def storage_options(settings: LakeSettings) -> dict[str, str] | None:
    """The options of delta-rs for S3."""
    if not settings.path.startswith(S3_SCHEME):
        return None
    options = {"AWS_REGION": settings.s3_region, "aws_conditional_put": "etag"}
    if settings.s3_endpoint:
        options["AWS_ENDPOINT_URL"] = settings.s3_endpoint
        options["AWS_ALLOW_HTTP"] = "true"
    if settings.s3_access_key and settings.s3_secret_key:
        options["AWS_ACCESS_KEY_ID"] = settings.s3_access_key
        options["AWS_SECRET_ACCESS_KEY"] = settings.s3_secret_key
    return options
