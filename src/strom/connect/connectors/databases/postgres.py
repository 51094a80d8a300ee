"""PostgreSQL, through asyncpg: every task has an event loop of its own, and waits in it."""

import asyncio
import contextlib
import zlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from strom.connect.api import ConnectError, RetriableError, Schema, StoredPosition, TopicPartition
from strom.connect.connectors.databases.address import Address
from strom.connect.connectors.databases.dialect import (
    POSITIONS,
    Claim,
    Column,
    Database,
    NewColumn,
    RefusedRows,
    Row,
    TableId,
)
from strom.connect.connectors.databases.postgres_types import SESSION, TypeInfo, mapped, optional
from strom.connect.connectors.databases.postgres_values import (
    column_type,
    converter,
    is_copied_as_text,
)

T = TypeVar("T")

_CONNECT_TIMEOUT_S: Final = 10
_CLOSE_TIMEOUT_S: Final = 2
_AWAY: Final = ("08", "57P", "53", "40", "55P03", "55006", "25006")
"""Beginnings of the error codes that go away by waiting: connection, shutdown, resources, conflicts."""
_WRONG_DATA: Final = ("22", "23")

_COLUMNS: Final = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.atttypid::int8,
       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,
       a.attnotnull OR t.typnotnull,
       a.atthasdef OR a.attidentity <> '', t.typbasetype::int8,
       CASE WHEN t.typcategory = 'A' THEN t.typelem::int8 ELSE 0 END,
       coalesce((SELECT k.place FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(number, place)
                 WHERE i.indrelid = a.attrelid AND i.indisprimary AND k.number = a.attnum), 0)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
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


class Postgres(Database):
    """One connection to a PostgreSQL database."""

    def __init__(self, address: Address, numeric_mapping: str = "none") -> None:
        self._address = address
        self._numeric_mapping = numeric_mapping
        self._runner: asyncio.Runner | None = None
        self._connection: Any = None
        self._filled: set[str] = set()
        """The session's tables that this transaction has put rows into."""

    def open(self) -> None:
        """Connect; RetriableError if it is away."""
        if self._connection is not None and not self._connection.is_closed():
            return
        self._runner = self._runner or asyncio.Runner()
        address = self._address
        self._connection = self._run(
            lambda: asyncpg.connect(
                host=address.host,
                port=address.port,
                database=address.database,
                user=address.user,
                password=address.password,
                ssl=address.ssl,
                timeout=_CONNECT_TIMEOUT_S,
                server_settings=dict(SESSION),
                # Statements are few and long-lived, but a table's columns may change under them.
                statement_cache_size=0,
            )
        )

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            # What matters is that nothing of it is left; whether it ended politely is not known
            # when the server is away.
            with contextlib.suppress(ConnectError):
                self._run(lambda: self._connection.close(timeout=_CLOSE_TIMEOUT_S))
            self._connection = None
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _run(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run it to its end, and say in our words what went wrong."""
        if self._runner is None:
            raise RetriableError(f"{self._address} is not connected.")

        async def run() -> T:
            return await call()

        try:
            return self._runner.run(run())
        except asyncpg.PostgresError as error:
            raise self._told(error) from error
        except (
            asyncpg.InterfaceError,
            OSError,
            TimeoutError,
            asyncpg.InternalClientError,
        ) as error:
            if isinstance(error, ValueError):
                raise RefusedRows(str(error)) from error
            raise RetriableError(f"{self._address} is away: {error}") from error
        except (ValueError, OverflowError, TypeError) as error:
            raise RefusedRows(str(error)) from error

    def _told(self, error: Any) -> ConnectError:
        code = error.sqlstate or ""
        text = str(error) + (f" ({error.detail})" if getattr(error, "detail", None) else "")
        if code.startswith(_WRONG_DATA):
            return RefusedRows(text)
        if code.startswith(_AWAY):
            return RetriableError(f"{self._address}: {text}")
        return ConnectError(f"{self._address} refuses: {text}")

    # Reading

    def tables(self, kinds: Sequence[str] = ("TABLE",)) -> list[TableId]:
        """Every table of users."""
        letters = [*"rp"] * ("TABLE" in kinds) + [*"vm"] * ("VIEW" in kinds)
        rows = self.read(_TABLES, (letters, POSITIONS))
        return [TableId(*row) for row in rows]

    def columns(self, table: TableId) -> tuple[Column, ...]:
        """A table's columns."""
        found = []
        for row in self.read(_COLUMNS, (self.quote_table(table),)):
            name, type_name, oid, modifier, required, filled, base, item, key = row
            kind = mapped(TypeInfo(oid, base, item), modifier, self._numeric_mapping)
            schema = kind.schema if required else optional(kind.schema)
            found.append(Column(name, type_name, schema, kind.parse, key, required and not filled))
        return tuple(found)

    def query_columns(self, query: str) -> tuple[Column, ...]:
        """What a query returns; it does not say which can be NULL, so all can."""
        statement: Any = self._run(
            lambda: self._connection.prepare(f"SELECT * FROM ({query}) AS q")
        )
        columns = []
        for name, kind in statement.get_attributes():
            of = mapped(TypeInfo(kind.oid), numeric_mapping=self._numeric_mapping)
            columns.append(Column(name, _type_name(kind), optional(of.schema), of.parse))
        return tuple(columns)

    def selected(self, expression: str) -> str:
        """As text, which is what postgres_types reads."""
        return f"({expression})::text"

    def parameter(self, number: int, type_name: str) -> str:
        """Text again, and the server makes the type of it: nothing is lost between."""
        return f"${number}::text::{type_name}"

    def given(self, value: Any) -> str:
        """As text, whatever a stored cursor has made of it."""
        return str(value)

    def is_before(self, expression: str, delay_ms: int) -> str:
        """By the server's clock."""
        return f"({expression}) < now() - interval '{delay_ms} milliseconds'"

    def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """All rows that a statement returns."""
        rows: list[Row] = self._run(lambda: self._connection.fetch(statement, *parameters))
        return rows

    def begin_reading(self, snapshot: str | None = None) -> None:
        """See everything as of one moment (an exported snapshot's, or now) until `rollback`."""
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if snapshot:
            self.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")

    def stream(self, statement: str, size: int) -> Iterator[list[Row]]:
        """Through a cursor, in a transaction that is begun if there is none."""
        begun = not self._connection.is_in_transaction()
        if begun:
            self.begin_reading()
        self.execute(f"DECLARE strom_rows NO SCROLL CURSOR FOR {statement}")
        while rows := self.read(f"FETCH {size} FROM strom_rows"):
            yield rows
        self.execute("CLOSE strom_rows")
        if begun:
            self.rollback()

    # Writing

    def begin(self) -> None:
        """Start a transaction."""
        self.open()
        self._filled.clear()
        self.execute("BEGIN")

    def commit(self) -> None:
        """End it well. A server that goes away meanwhile leaves open whether it did."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """End it, or the connection if that does not work any more."""
        if self._connection is None or self._connection.is_closed():
            return
        try:
            self.execute("ROLLBACK")
        except ConnectError:
            self._connection.terminate()

    def execute(self, statement: str) -> None:
        """Run a statement that returns nothing."""
        self._run(lambda: self._connection.execute(statement))

    def column_type(self, column: NewColumn) -> str:
        """The type for a new column."""
        return column_type(column.schema)

    def converter(self, column: Column, schema: Schema | None) -> Callable[[Any], Any] | None:
        """How a record's value becomes one for this column."""
        return converter(column.type, schema)

    def insert(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """By COPY, straight into the table where its types allow."""
        if not any(is_copied_as_text(column.type) for column in columns):
            self._copy(table.name, columns, rows, table.schema)
            return
        batch = self._copied_batch(table, columns, rows)
        names = ", ".join(self.quote(column.name) for column in columns)
        self.execute(
            f"INSERT INTO {self.quote_table(table)} ({names}) SELECT {self._cast(columns)} FROM {batch} s"
        )

    def upsert(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """By COPY into a table of this session, and one statement from there."""
        batch = self._copied_batch(table, columns, rows)
        names = ", ".join(self.quote(column.name) for column in columns)
        keys = ", ".join(self.quote(column.name) for column in columns if column.key)
        changed = ", ".join(
            f"{self.quote(column.name)} = EXCLUDED.{self.quote(column.name)}"
            for column in columns
            if not column.key
        )
        action = f"DO UPDATE SET {changed}" if changed else "DO NOTHING"
        self.execute(
            f"INSERT INTO {self.quote_table(table)} ({names}) SELECT {self._cast(columns)} "
            f"FROM {batch} s ON CONFLICT ({keys}) {action}"
        )

    def update(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """By COPY into a table of this session, and one statement from there."""
        changed = [column for column in columns if not column.key]
        if not changed:
            return
        batch = self._copied_batch(table, columns, rows)
        values = ", ".join(
            f"{self.quote(column.name)} = {self._cast([column])}" for column in changed
        )
        self.execute(
            f"UPDATE {self.quote_table(table)} t SET {values} FROM {batch} s "
            f"WHERE {self._same_key(columns)}"
        )

    def delete(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """By COPY of the keys into a table of this session, and one statement from there."""
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

    def _cast(self, columns: Sequence[Column]) -> str:
        return ", ".join(
            f"s.{self.quote(column.name)}"
            + (f"::{column.type}" if is_copied_as_text(column.type) else "")
            for column in columns
        )

    def _copied_batch(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> str:
        """The name of a table of this session that holds the rows until the transaction ends."""
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
        """Become the owner; waits for a transaction of the owner before, which then counts."""
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
                # Two tasks may make it at once, and one of them is told that it is there.
                failure = error
        if failure is not None:
            raise ConnectError(
                f"The table {POSITIONS}, for how far the sink is, cannot be made: {failure}"
            ) from failure

    def _add_topic_id(self) -> None:
        """Bring a table that strom 0.1.0 has made up to date."""
        if self.read(_HAS_TOPIC_ID, (POSITIONS,))[0][0]:
            return
        try:
            self.execute(_ADD_TOPIC_ID)
        except RetriableError:
            raise
        except ConnectError as error:
            raise ConnectError(
                f"The table {POSITIONS} needs a column for the topics' ids, and it cannot be added: "
                f"{error} Let the table's owner run: {_ADD_TOPIC_ID}"
            ) from error

    def lock_positions(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Claim]:
        """By locks on their rows."""
        return _claims(self.read(_LOCK, (connector, *_apart(partitions))))

    def store(self, connector: str, positions: Mapping[TopicPartition, StoredPosition]) -> None:
        """The next offsets, in the same transaction as the rows."""
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


def _type_name(kind: Any) -> str:
    if kind.schema == "pg_catalog":
        return f"{kind.name.removesuffix('[]')}[]" if kind.kind == "array" else str(kind.name)
    return f'"{kind.schema}"."{kind.name}"'
