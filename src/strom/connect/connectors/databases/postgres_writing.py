"""Writes rows and offsets to PostgreSQL."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final

from strom.connect.api import ConnectError, RetriableError, Schema, StoredPosition, TopicPartition
from strom.connect.connectors.databases.dialect import (
    POSITIONS,
    Claim,
    Column,
    PositionTable,
    Row,
    RowWriter,
    TableId,
)
from strom.connect.connectors.databases.postgres_session import PostgresSession
from strom.connect.connectors.databases.postgres_values import (
    column_type,
    converter,
    is_copied_as_text,
)

_CREATE_POSITIONS: Final = f"""
CREATE TABLE IF NOT EXISTS {POSITIONS} (
    connector text, topic text, part int, next_offset bigint, epoch bigint NOT NULL,
    topic_id text, PRIMARY KEY (connector, topic, part))
"""
_HAS_TOPIC_ID: Final = """
SELECT count(*) FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attname = 'topic_id' AND NOT attisdropped
"""
_ADD_TOPIC_ID: Final = f"ALTER TABLE {POSITIONS} ADD COLUMN IF NOT EXISTS topic_id text"
_CLAIM: Final = f"""
INSERT INTO {POSITIONS} AS p (connector, topic, part, epoch)
SELECT $1, topic, part, 1 FROM unnest($2::text[], $3::int[]) AS wanted(topic, part) ORDER BY 2, 3
ON CONFLICT (connector, topic, part) DO UPDATE SET epoch = p.epoch + 1
RETURNING topic, part, next_offset, epoch, topic_id
"""
_LOCK: Final = f"""
SELECT topic, part, next_offset, epoch, topic_id FROM {POSITIONS}
WHERE connector = $1 AND (topic, part) IN (SELECT * FROM unnest($2::text[], $3::int[]))
ORDER BY topic, part FOR UPDATE
"""
_STORE: Final = f"""
UPDATE {POSITIONS} p SET next_offset = new.next_offset, topic_id = new.topic_id
FROM unnest($2::text[], $3::int[], $4::bigint[], $5::text[])
    AS new(topic, part, next_offset, topic_id)
WHERE p.connector = $1 AND p.topic = new.topic AND p.part = new.part
"""


class PostgresRows(RowWriter):
    """Writes distinct rows by COPY into a temporary table, and one statement from there."""

    _database: PostgresSession

    def __init__(self, database: PostgresSession, zone: tzinfo) -> None:
        super().__init__(database)
        self._zone = zone
        self.filled: set[str] = set()
        """The temporary tables that this transaction has put rows into."""

    def column_type(self, schema: Schema) -> str:
        return column_type(schema)

    def converter(self, column: Column, schema: Schema | None) -> Callable[[Any], Any] | None:
        return converter(column.type, schema, self._zone)

    def placeholders(self, columns: Sequence[Column]) -> list[str]:
        """Each with its column's type.

        Not as `varchar(3)`: PostgreSQL's casts silently truncate longer values.
        """
        return [
            f"${number}::text::{column.cast}"
            if is_copied_as_text(column.type)
            else f"${number}"
            if column.type.startswith("character")
            else f"${number}::{column.type}"
            for number, column in enumerate(columns, 1)
        ]

    def insert(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Insert by COPY, directly into the table if its types allow."""
        if any(is_copied_as_text(column.type) for column in columns):
            self._insert_batch(table, columns, rows)
        else:
            self._database.copy_rows(table.name, _names(columns), rows, table.schema)

    def upsert(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        if distinct:
            self._insert_batch(table, columns, rows, self._on_conflict(columns))
        else:
            super().upsert(table, columns, rows, distinct=distinct)

    def update(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        changed, same_key = self._comparisons(columns, self._copied_values(columns), "t.")
        if not distinct:
            super().update(table, columns, rows, distinct=distinct)
        elif changed:
            batch = self._copied_batch(table, columns, rows)
            name = self._database.quote_table(table)
            self._database.execute(f"UPDATE {name} t SET {changed} FROM {batch} s WHERE {same_key}")

    def delete(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        if not distinct:
            super().delete(table, columns, rows, distinct=distinct)
            return
        _, same_key = self._comparisons(columns, self._copied_values(columns), "t.")
        batch = self._copied_batch(table, columns, rows)
        name = self._database.quote_table(table)
        self._database.execute(f"DELETE FROM {name} t USING {batch} s WHERE {same_key}")

    def _insert_batch(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], action: str = ""
    ) -> None:
        batch = self._copied_batch(table, columns, rows)
        values = ", ".join(self._copied_values(columns))
        into = self._insert_into(table, columns)
        self._database.execute(f"{into} SELECT {values} FROM {batch} s {action}")

    def _copied_values(self, columns: Sequence[Column]) -> list[str]:
        """The values of a row in the temporary table, as its columns in the table need them."""
        return [
            f"s.{self._database.quote(column.name)}"
            + (f"::{column.cast}" if is_copied_as_text(column.type) else "")
            for column in columns
        ]

    def _copied_batch(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> str:
        """The name of a temporary table that holds the rows until the transaction ends."""
        declared = ", ".join(
            f"{self._database.quote(column.name)} "
            f"{'text' if is_copied_as_text(column.type) else column.type}"
            for column in columns
        )
        name = f"strom_batch_{zlib.crc32(f'{table} {declared}'.encode()):08x}"
        self._database.execute(
            f"CREATE TEMP TABLE IF NOT EXISTS {name} ({declared}) ON COMMIT DELETE ROWS"
        )
        if name in self.filled:
            self._database.execute(f"TRUNCATE {name}")
        self.filled.add(name)
        self._database.copy_rows(name, _names(columns), rows)
        return name


class PostgresPositions(PositionTable):
    """Offsets in rows that are locked one by one."""

    def __init__(self, database: PostgresSession) -> None:
        self._database = database

    def claim(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Claim]:
        """Become the owner; waits for a transaction of the previous owner, which takes effect."""
        self._database.open()
        self._make_positions()
        return _claims(self._database.read(_CLAIM, (connector, *_apart(partitions))))

    def _make_positions(self) -> None:
        failure: ConnectError | None = None
        for _ in range(2):
            if self._database.read("SELECT to_regclass($1) IS NOT NULL", (POSITIONS,))[0][0]:
                self._add_topic_id()
                return
            try:
                self._database.execute(_CREATE_POSITIONS)
            except ConnectError as error:
                # Two tasks may create it at once; one of them gets an error that it exists.
                failure = error
        if failure is not None:
            raise ConnectError(
                f"The table {POSITIONS} for the sink's offsets cannot be created: {failure}"
            ) from failure

    def _add_topic_id(self) -> None:
        """Upgrade a table of strom 0.1.0."""
        if self._database.read(_HAS_TOPIC_ID, (POSITIONS,))[0][0]:
            return
        try:
            self._database.execute(_ADD_TOPIC_ID)
        except RetriableError:
            raise
        except ConnectError as error:
            raise ConnectError(
                f"The table {POSITIONS} needs a column for topic ids, which cannot be added: "
                f"{error} Ask the table's owner to run: {_ADD_TOPIC_ID}"
            ) from error

    def lock(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Claim]:
        return _claims(self._database.read(_LOCK, (connector, *_apart(partitions))))

    def store(self, connector: str, positions: Mapping[TopicPartition, StoredPosition]) -> None:
        offsets = [position.offset for position in positions.values()]
        topic_ids = [position.topic_id for position in positions.values()]
        self._database.read(_STORE, (connector, *_apart(list(positions)), offsets, topic_ids))


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def _apart(partitions: Sequence[TopicPartition]) -> tuple[list[str], list[int]]:
    return [one.topic for one in partitions], [one.partition for one in partitions]


def _claims(rows: Sequence[Row]) -> dict[TopicPartition, Claim]:
    return {
        TopicPartition(topic, partition): Claim(next_offset, epoch, topic_id)
        for topic, partition, next_offset, epoch, topic_id in rows
    }
