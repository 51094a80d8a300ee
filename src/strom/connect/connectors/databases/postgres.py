"""PostgreSQL: its catalog, and the statements that read rows."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from strom.connect.api import RetriableError
from strom.connect.connectors.databases.address import Address
from strom.connect.connectors.databases.dialect import (
    POSITIONS,
    Column,
    CursorDialect,
    Row,
    TableId,
)
from strom.connect.connectors.databases.postgres_session import PostgresSession
from strom.connect.connectors.databases.postgres_types import TypeInfo, mapped, optional
from strom.connect.connectors.databases.postgres_values import is_wall_clock, key_identity
from strom.connect.connectors.databases.postgres_writing import PostgresPositions, PostgresRows
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


class Postgres(PostgresSession):
    """One connection to a PostgreSQL database."""

    rows: PostgresRows

    def __init__(self, address: Address, numeric_mapping: str = "none", zone: tzinfo = UTC) -> None:
        super().__init__(address)
        self._numeric_mapping = numeric_mapping
        self._zone = zone
        """The time zone of timestamps without time zone."""
        self.cursors = PostgresCursors(self, zone)
        self.rows = PostgresRows(self, zone)
        self.positions = PostgresPositions(self)

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

    def begin(self) -> None:
        super().begin()
        self.rows.filled.clear()


class PostgresCursors(CursorDialect):
    """Cursors by the server's clock; values are passed as text, so that nothing is lost."""

    def __init__(self, database: PostgresSession, zone: tzinfo) -> None:
        self._database = database
        self._zone = zone

    def parameter(self, number: int, type_name: str) -> str:
        return f"${number}::text::{type_name}"

    def given(self, value: Any) -> str:
        return str(value)

    def is_before(self, expression: str, type_name: str, delay_ms: int) -> str:
        """The condition by the server's clock."""
        if self._zone is UTC or not is_wall_clock(type_name):
            return f"({expression}) < now() - interval '{delay_ms} milliseconds'"
        ((now,),) = self._database.read("SELECT now()")
        latest = settled_wall_clock(now - timedelta(milliseconds=delay_ms), self._zone)
        return f"({expression}) < '{latest.isoformat(' ')}'::timestamp"

    def is_wall_clock(self, type_name: str) -> bool:
        """Whether it is a timestamp without time zone."""
        return is_wall_clock(type_name)

    def position_at(self, moment: datetime, type_name: str) -> str:
        """The earliest time that rows of this moment or later can have."""
        zone = self._zone if is_wall_clock(type_name) else UTC
        return settled_wall_clock(moment, zone).isoformat(" ")


def _type_name(kind: Any) -> str:
    if kind.schema == "pg_catalog":
        return f"{kind.name.removesuffix('[]')}[]" if kind.kind == "array" else str(kind.name)
    return f'"{kind.schema}"."{kind.name}"'
