"""Delta tables: a commit to the table's log adds files, and notes the positions with them.

Delta's log takes each version once. A commit is tried for exactly the version after the one whose
positions were checked, so two owners of a partition cannot both store the same records. Beside a
position is noted which topic it is of: one that was deleted and recreated begins again.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from strom.connect.api import ConnectError, RetriableError, SinkContext, TopicPartition
from strom.connect.connectors.lake.columns import TIME
from strom.connect.connectors.lake.files import Files
from strom.connect.connectors.lake.settings import S3_SCHEME, LakeSettings
from strom.connect.connectors.lake.tables import (
    Batch,
    DataFile,
    FencedError,
    check_adoption,
    plan_files,
    without_empty_columns,
    write_file,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable as Table

_ATTEMPTS = 50
"""Other tasks commit to the same table: so often the next version is tried."""


class DeltaTable:
    """One table, as one connector writes it."""

    def __init__(
        self, files: Files, folder: str, context: SinkContext, settings: LakeSettings
    ) -> None:
        self._files = files
        self._folder = folder
        self._context = context
        self._settings = settings
        self._options = storage_options(settings)
        self._uri = f"{settings.path.rstrip('/')}/{folder}"

    def position(self, partition: TopicPartition) -> int | None:
        """What the table's log has noted for the partition."""
        table = self._open()
        stored = None if table is None else table.transaction_version(self._mark(partition))
        if table is None or stored is None or self._is_same_topic(table, partition):
            return stored
        if table.transaction_version(self._topic_mark(partition)) is not None:
            return None
        # strom 0.1.0 has stored it: from here on it is this topic's.
        check_adoption(stored, partition, self._context)
        self._commit([], [], {partition: Batch(None, stored, stored)})
        return stored

    def store(self, batches: Mapping[TopicPartition, Batch]) -> None:
        """Write the files of all partitions, and add them in one commit."""
        import pyarrow as pa

        tables = [batch.rows for batch in batches.values() if batch.rows is not None]
        rows = pa.concat_tables(tables, promote_options="permissive") if tables else None
        table = self._open()
        if table is None:
            if rows is None:
                return  # nothing to keep a position with; these records are read again
            table = self._create(rows)
        planned: list[DataFile] = []
        if rows is not None:
            rows = self._fitted(table, rows)
            planned = plan_files(self._context.connector, rows, self._settings.levels)
        sizes = [write_file(self._files, self._folder, file, self._settings) for file in planned]
        # Whatever fails from here on, the files stay: a commit whose answer was lost may list them.
        # Files that no version lists harm nobody, and Delta's VACUUM removes them.
        self._commit(planned, sizes, batches)

    def _commit(
        self, planned: list[DataFile], sizes: list[int], batches: Mapping[TopicPartition, Batch]
    ) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction

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
                raise ConnectError(f"The table {self._uri} was removed while it was written to.")
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
            self._files.safe(f"{self._folder}/_delta_log/{table.version() + 1:020d}.json")
            return
        raise RetriableError(
            f"Others wrote to {self._uri} all the time: {_ATTEMPTS} attempts failed."
        )

    def _check_owner(self, table: "Table", batches: Mapping[TopicPartition, Batch]) -> None:
        for partition, batch in batches.items():
            stored = table.transaction_version(self._mark(partition))
            known = table.transaction_version(self._topic_mark(partition))
            is_other = known is not None and not self._is_same_topic(table, partition)
            if stored is not None and stored > batch.first and not is_other:
                raise FencedError(
                    f"Another task has stored {partition.topic}-{partition.partition} "
                    f"up to offset {stored}; this one wanted to go on from {batch.first}."
                )

    def _create(self, rows: "pa.Table") -> "Table":
        """Begin the table with the columns that these rows have, and those of time."""
        import pyarrow as pa
        from deltalake import DeltaTable as Table

        known = without_empty_columns(rows.drop_columns([TIME])).schema
        schema = pa.schema([*known, *((level, pa.string()) for level in self._settings.levels)])
        try:
            Table.create(
                self._uri,
                _microseconds(schema),
                mode="ignore",
                partition_by=list(self._settings.levels),
                configuration={"delta.enableDeletionVectors": "false"},
                storage_options=self._options,
            )
        except OSError as error:
            raise self._away(error) from None
        if not self._uri.startswith(S3_SCHEME):
            self._files.safe(f"{self._folder}/_delta_log/{0:020d}.json")
        made = self._open()
        if made is None:
            raise ConnectError(f"The table {self._uri} was removed while it was made.")
        return made

    def _fitted(self, table: "Table", rows: "pa.Table") -> "pa.Table":
        """The rows with the table's types; columns that the table lacks are added to it."""
        import pyarrow as pa

        there = pa.schema(table.schema().to_arrow())
        fields = []
        for field in rows.schema:
            if field.name in there.names and not pa.types.is_null(field.type):
                field = field.with_type(there.field(field.name).type)
            fields.append(field)
        wanted = _microseconds(pa.schema(fields))
        try:
            rows = rows.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ConnectError(
                f"The records no longer fit the table {self._uri}: {error}. Columns can be added, "
                "but not change their type: bring them into shape with the transform Cast, or write "
                "to a new table (table.name.format)."
            ) from None
        new = [
            field
            for field in without_empty_columns(rows.drop_columns([TIME])).schema
            if field.name not in there.names
        ]
        if new:
            self._add_columns(table, new)
        return rows

    def _add_columns(self, table: "Table", new: "list[pa.Field]") -> None:
        import pyarrow as pa
        from deltalake import Schema
        from deltalake.exceptions import DeltaError

        schema = pa.schema([field.with_nullable(True) for field in new])
        try:
            table.alter.add_columns(Schema.from_arrow(schema).fields)
        except DeltaError as error:  # another task may have added the same
            again = self._open()
            names = [] if again is None else [field.name for field in again.schema().fields]
            if not {field.name for field in new} <= set(names):
                raise RetriableError(
                    f"Columns could not be added to {self._uri}: {error}"
                ) from None

    def _open(self) -> "Table | None":
        from deltalake import DeltaTable as Table
        from deltalake.exceptions import TableNotFoundError

        try:
            return Table(self._uri, storage_options=self._options)
        except TableNotFoundError:
            return None
        except OSError as error:
            raise self._away(error) from None

    def _away(self, error: OSError) -> RetriableError:
        return RetriableError(f"The table {self._uri} could not be reached: {error}")

    def _mark(self, partition: TopicPartition) -> str:
        return f"strom/{self._context.connector}/{partition.topic}/{partition.partition}"

    def _topic_mark(self, partition: TopicPartition) -> str:
        return f"{self._mark(partition)}/topic-id"

    def _topic_number(self, partition: TopicPartition) -> int | None:
        """The topic's id as Delta's log can note it: as a number of 63 bits."""
        topic_id = self._context.topic_id(partition.topic)
        if topic_id is None:
            return None
        return int.from_bytes(hashlib.sha256(topic_id.encode()).digest()[:8], "big") >> 1

    def _is_same_topic(self, table: "Table", partition: TopicPartition) -> bool:
        """Whether the position that is noted is of the topic as it is now, as far as can be known."""
        number = self._topic_number(partition)
        return number is None or number == table.transaction_version(self._topic_mark(partition))


def storage_options(settings: LakeSettings) -> dict[str, str] | None:
    """What Delta's own access to S3 needs to know."""
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


def _microseconds(schema: "pa.Schema") -> "pa.Schema":
    """Delta knows times to the microsecond only."""
    import pyarrow as pa

    return pa.schema(
        [
            field.with_type(pa.timestamp("us", field.type.tz))
            if pa.types.is_timestamp(field.type) and field.name != TIME
            else field
            for field in schema
        ]
    )
