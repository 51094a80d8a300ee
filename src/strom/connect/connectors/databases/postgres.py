"""PostgreSQL: its catalog, the statements that read and write rows, and stored offsets."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from strom.connect.api import ConnectError, RetriableError, Schema, StoredPosition, TopicPartition
from strom.connect.connectors.databases.address import Address
from strom.connect.connectors.databases.dialect import (
    POSITIONS,
    Claim,
    Column,
    NewColumn,
    Row,
    TableId,
)
from strom.connect.connectors.databases.postgres_session import PostgresSession
from strom.connect.connectors.databases.postgres_types import TypeInfo, mapped, optional
from strom.connect.connectors.databases.postgres_values import (
    column_type,
    converter,
    is_copied_as_text,
    is_wall_clock,
    key_identity,
)
from strom.connect.connectors.databases.time_zones import settled_wall_clock

_COLUMNS: Final = """
WITH RECURSIVE cascading AS (
    SELECT conrelid FROM pg_constraint
    WHERE confrelid = to_regclass($1) AND contype = 'f' AND confdeltype IN ('c', 'n', 'd')
    UNION
    SELECT k.conrelid FROM cascading c JOIN pg_constraint k ON k.confrelid = c.conrelid
    WHERE k.contype = 'f' AND k.confdeltype IN ('c', 'n', 'd'))
SELECT a.attname,
       CASE WHEN t.typbasetype = 'timestamp'::regtype THEN format_type(t.typbasetype, t.typtypmod)
            ELSE format_type(a.atttypid, a.atttypmod) END,
       a.atttypid::int8,
       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,
       a.attnotnull OR t.typnotnull,
       a.atthasdef OR a.attidentity <> '', t.typbasetype::int8,
       CASE WHEN t.typcategory = 'A' THEN t.typelem::int8 ELSE 0 END, t.typdelim::text,
       greatest(1, CASE WHEN t.typtype = 'd' THEN t.typndims ELSE a.attndims END),
       coalesce((SELECT k.place FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(number, place)
                 WHERE i.indrelid = a.attrelid AND i.indisprimary AND k.number = a.attnum), 0),
       coalesce((to_jsonb(c) ->> 'collisdeterministic')::bool, true)
       AND NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = a.attrelid AND NOT g.tgisinternal)
       AND a.attrelid NOT IN (SELECT conrelid FROM cascading),
       format_type(coalesce(nullif(t.typbasetype, 0), a.atttypid), -1)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
"""The last but one column: whether equal values are identical, and writing rows changes nothing but these
rows: no trigger, no foreign key by which deleting a row changes others of its table. The last column: the
type that a text is cast to. A cast to `bit(3)`, or to a domain of `varchar(3)`, silently truncates the
value; assigning a longer value to such a column is an error."""
_TABLES: Final = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind::text = ANY($1) AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%'
  AND c.relname <> $2
ORDER BY 1, 2
"""
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


class Postgres(PostgresSession):
    """One connection to a PostgreSQL database."""

    def __init__(self, address: Address, numeric_mapping: str = "none", zone: tzinfo = UTC) -> None:
        super().__init__(address)
        self._numeric_mapping = numeric_mapping
        self._zone = zone
        """The time zone of timestamps without time zone."""
        self._filled: set[str] = set()
        """The temporary tables that this transaction has put rows into."""

    # Reading

    def tables(self, kinds: Sequence[str] = ("TABLE",)) -> list[TableId]:
        """All tables of users."""
        letters = [*"rp"] * ("TABLE" in kinds) + [*"vm"] * ("VIEW" in kinds)
        rows = self.read(_TABLES, (letters, POSITIONS))
        return [TableId(*row) for row in rows]

    def columns(self, table: TableId) -> tuple[Column, ...]:
        found = []
        for row in self.read(_COLUMNS, (self.quote_table(table),)):
            name, type_name, oid, modifier, required, filled, *more, key, is_literal, cast = row
            info = TypeInfo(oid, *more)
            kind = mapped(info, modifier, self._numeric_mapping, self._zone)
            schema = kind.schema if required else optional(kind.schema)
            # NULLs are not equal to each other, so a column that can be NULL has no identity.
            identity = (
                key_identity(type_name) if required and is_literal and self._is_utf8 else None
            )
            is_needed = required and not filled
            found.append(
                Column(name, type_name, schema, kind.parse, key, is_needed, identity, cast)
            )
        return tuple(found)

    @property
    def _is_utf8(self) -> bool:
        """Other encodings may store different characters as the same."""
        return bool(self._connection.get_settings().server_encoding == "UTF8")

    def query_columns(self, query: str) -> tuple[Column, ...]:
        """The columns of a query; all are nullable, because the server does not report NOT NULL."""
        statement: Any = self._run(
            lambda: self._connection.prepare(f"SELECT * FROM ({query}) AS q")
        )
        # Preparing starts an implicit transaction, which blocks one of another isolation level.
        self.execute("SELECT 1")
        columns = []
        for name, kind in statement.get_attributes():
            info = TypeInfo(kind.oid, dimensions=1)
            of = mapped(info, numeric_mapping=self._numeric_mapping, zone=self._zone)
            columns.append(Column(name, _type_name(kind), optional(of.schema), of.parse))
        return tuple(columns)

    def selected(self, expression: str) -> str:
        """Cast to text, which postgres_types parses."""
        return f"({expression})::text"

    def parameter(self, number: int, type_name: str) -> str:
        """Cast from text by the server: nothing is lost in between."""
        return f"${number}::text::{type_name}"

    def given(self, value: Any) -> str:
        """As text, the type of every parameter."""
        return str(value)

    def is_before(self, expression: str, type_name: str, delay_ms: int) -> str:
        """The condition by the server's clock."""
        if self._zone is UTC or not is_wall_clock(type_name):
            return f"({expression}) < now() - interval '{delay_ms} milliseconds'"
        ((now,),) = self.read("SELECT now()")
        latest = settled_wall_clock(now - timedelta(milliseconds=delay_ms), self._zone)
        return f"({expression}) < '{latest.isoformat(' ')}'::timestamp"

    def is_wall_clock(self, type_name: str) -> bool:
        """Whether it is a timestamp without time zone."""
        return is_wall_clock(type_name)

    def position_at(self, moment: datetime, type_name: str) -> str:
        """The earliest time that rows of this moment or later can have."""
        zone = self._zone if is_wall_clock(type_name) else UTC
        return settled_wall_clock(moment, zone).isoformat(" ")

    def stream(self, statement: str, size: int) -> Iterator[list[Row]]:
        """Read through a cursor, in a new transaction if there is none."""
        begun = not self._connection.is_in_transaction()
        if begun:
            self.begin_reading()
        connection = self._connection
        self.execute(f"DECLARE strom_rows NO SCROLL CURSOR FOR {statement}")
        while rows := self.read(f"FETCH {size} FROM strom_rows"):
            yield rows
            if self._connection is not connection:
                raise RetriableError(f"{self._address} disconnected while rows were read.")
        self.execute("CLOSE strom_rows")
        if begun:
            self.rollback()

    # Writing

    def begin(self) -> None:
        super().begin()
        self._filled.clear()

    def column_type(self, column: NewColumn) -> str:
        return column_type(column.schema)

    def converter(self, column: Column, schema: Schema | None) -> Callable[[Any], Any] | None:
        return converter(column.type, schema, self._zone)

    def insert(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Insert by COPY, directly into the table if its types allow."""
        if not any(is_copied_as_text(column.type) for column in columns):
            self._copy(table.name, columns, rows, table.schema)
            return
        batch = self._copied_batch(table, columns, rows)
        names = ", ".join(self.quote(column.name) for column in columns)
        self.execute(
            f"INSERT INTO {self.quote_table(table)} ({names}) SELECT {self._cast(columns)} FROM {batch} s"
        )

    def upsert(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        """Upsert by COPY into a temporary table and one statement from there; or row by row."""
        names = ", ".join(self.quote(column.name) for column in columns)
        keys = ", ".join(self.quote(column.name) for column in columns if column.key)
        changed = ", ".join(
            f"{self.quote(column.name)} = EXCLUDED.{self.quote(column.name)}"
            for column in columns
            if not column.key
        )
        into = f"INSERT INTO {self.quote_table(table)} ({names})"
        action = f"ON CONFLICT ({keys}) {f'DO UPDATE SET {changed}' if changed else 'DO NOTHING'}"
        if not distinct:
            values = ", ".join(_parameters(columns))
            self._execute_many(f"{into} VALUES ({values}) {action}", rows)
            return
        batch = self._copied_batch(table, columns, rows)
        self.execute(f"{into} SELECT {self._cast(columns)} FROM {batch} s {action}")

    def update(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        """Update by COPY into a temporary table and one statement from there; or row by row."""
        changed = [column for column in columns if not column.key]
        if not changed:
            return
        if not distinct:
            values = ", ".join(
                f"{self.quote(column.name)} = {place}"
                for column, place in zip(columns, _parameters(columns), strict=True)
                if not column.key
            )
            self._execute_many(
                f"UPDATE {self.quote_table(table)} SET {values} WHERE {self._given_key(columns)}",
                rows,
            )
            return
        batch = self._copied_batch(table, columns, rows)
        values = ", ".join(
            f"{self.quote(column.name)} = {self._cast([column])}" for column in changed
        )
        self.execute(
            f"UPDATE {self.quote_table(table)} t SET {values} FROM {batch} s "
            f"WHERE {self._same_key(columns)}"
        )

    def delete(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        """Delete by COPY of the keys into a temporary table and one statement; or row by row."""
        if not distinct:
            self._execute_many(
                f"DELETE FROM {self.quote_table(table)} WHERE {self._given_key(columns)}", rows
            )
            return
        batch = self._copied_batch(table, columns, rows)
        self.execute(
            f"DELETE FROM {self.quote_table(table)} t USING {batch} s WHERE {self._same_key(columns)}"
        )

    def _same_key(self, columns: Sequence[Column]) -> str:
        return " AND ".join(
            f"t.{self.quote(column.name)} = {self._cast([column])}"
            for column in columns
            if column.key
        )

    def _given_key(self, columns: Sequence[Column]) -> str:
        return " AND ".join(
            f"{self.quote(column.name)} = {place}"
            for column, place in zip(columns, _parameters(columns), strict=True)
            if column.key
        )

    def _cast(self, columns: Sequence[Column]) -> str:
        return ", ".join(
            f"s.{self.quote(column.name)}"
            + (f"::{column.cast}" if is_copied_as_text(column.type) else "")
            for column in columns
        )

    def _copied_batch(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> str:
        """The name of a temporary table that holds the rows until the transaction ends."""
        declared = ", ".join(
            f"{self.quote(column.name)} {'text' if is_copied_as_text(column.type) else column.type}"
            for column in columns
        )
        name = f"strom_batch_{zlib.crc32(f'{table} {declared}'.encode()):08x}"
        self.execute(f"CREATE TEMP TABLE IF NOT EXISTS {name} ({declared}) ON COMMIT DELETE ROWS")
        if name in self._filled:
            self.execute(f"TRUNCATE {name}")
        self._filled.add(name)
        self._copy(name, columns, rows)
        return name

    def _copy(
        self, name: str, columns: Sequence[Column], rows: Sequence[Row], schema: str | None = None
    ) -> None:
        self._run(
            lambda: self._connection.copy_records_to_table(
                name,
                schema_name=schema,
                columns=[column.name for column in columns],
                records=rows,
            )
        )

    # Positions

    def claim(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Claim]:
        """Become the owner; waits for a transaction of the previous owner, which takes effect."""
        self.open()
        self._make_positions()
        return _claims(self.read(_CLAIM, (connector, *_apart(partitions))))

    def _make_positions(self) -> None:
        failure: ConnectError | None = None
        for _ in range(2):
            if self.read("SELECT to_regclass($1) IS NOT NULL", (POSITIONS,))[0][0]:
                self._add_topic_id()
                return
            try:
                self.execute(_CREATE_POSITIONS)
            except ConnectError as error:
                # Two tasks may create it at once; one of them gets an error that it exists.
                failure = error
        if failure is not None:
            raise ConnectError(
                f"The table {POSITIONS} for the sink's offsets cannot be created: {failure}"
            ) from failure

    def _add_topic_id(self) -> None:
        """Upgrade a table of strom 0.1.0."""
        if self.read(_HAS_TOPIC_ID, (POSITIONS,))[0][0]:
            return
        try:
            self.execute(_ADD_TOPIC_ID)
        except RetriableError:
            raise
        except ConnectError as error:
            raise ConnectError(
                f"The table {POSITIONS} needs a column for topic ids, which cannot be added: "
                f"{error} Ask the table's owner to run: {_ADD_TOPIC_ID}"
            ) from error

    def lock_positions(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Claim]:
        """Lock the rows of these partitions."""
        return _claims(self.read(_LOCK, (connector, *_apart(partitions))))

    def store(self, connector: str, positions: Mapping[TopicPartition, StoredPosition]) -> None:
        """Store the next offsets, in the same transaction as the rows."""
        offsets = [position.offset for position in positions.values()]
        topic_ids = [position.topic_id for position in positions.values()]
        self.read(_STORE, (connector, *_apart(list(positions)), offsets, topic_ids))


def _apart(partitions: Sequence[TopicPartition]) -> tuple[list[str], list[int]]:
    return [one.topic for one in partitions], [one.partition for one in partitions]


def _claims(rows: Sequence[Row]) -> dict[TopicPartition, Claim]:
    return {
        TopicPartition(topic, partition): Claim(next_offset, epoch, topic_id)
        for topic, partition, next_offset, epoch, topic_id in rows
    }


def _parameters(columns: Sequence[Column]) -> list[str]:
    """The placeholders of a row's values, each with its column's type.

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


def _type_name(kind: Any) -> str:
    if kind.schema == "pg_catalog":
        return f"{kind.name.removesuffix('[]')}[]" if kind.kind == "array" else str(kind.name)
    return f'"{kind.schema}"."{kind.name}"'
