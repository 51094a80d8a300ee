"""SQLite: a file with one writer at a time."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any, Final

from strom.connect.api import ConnectError, RetriableError, Schema, StoredPosition, TopicPartition
from strom.connect.connectors.databases.address import Address
from strom.connect.connectors.databases.dialect import (
    POSITIONS,
    Claim,
    Column,
    CursorDialect,
    Database,
    PositionTable,
    RejectedRows,
    Row,
    RowWriter,
    TableId,
)
from strom.connect.connectors.databases.postgres_types import optional
from strom.connect.connectors.databases.sqlite_types import (
    checked,
    column_type,
    mapped,
    needs_storing,
    stored,
)
from strom.connect.connectors.databases.time_zones import settled_wall_clock

_BUSY_TIMEOUT_S: Final = 5.0
_SECONDS: Final = "%Y-%m-%d %H:%M:%S"
_CREATE_POSITIONS: Final = f"""
CREATE TABLE IF NOT EXISTS {POSITIONS} (
    connector TEXT, topic TEXT, part INTEGER, next_offset INTEGER, epoch INTEGER NOT NULL,
    topic_id TEXT, PRIMARY KEY (connector, topic, part))
"""
_ADD_TOPIC_ID: Final = f"ALTER TABLE {POSITIONS} ADD COLUMN topic_id TEXT"
_CLAIM: Final = f"""
INSERT INTO {POSITIONS} (connector, topic, part, epoch) VALUES (?, ?, ?, 1)
ON CONFLICT (connector, topic, part) DO UPDATE SET epoch = epoch + 1
"""
_POSITION: Final = f"""
SELECT next_offset, epoch, topic_id FROM {POSITIONS}
WHERE connector = ? AND topic = ? AND part = ?
"""
_STORE: Final = f"""
UPDATE {POSITIONS} SET next_offset = ?, topic_id = ? WHERE connector = ? AND topic = ? AND part = ?
"""


class Sqlite(Database):
    """One connection to a SQLite file."""

    def __init__(self, address: Address, zone: tzinfo = UTC) -> None:
        self._address = address
        self._zone = zone
        """The time zone of times without one."""
        self._connection: sqlite3.Connection | None = None
        self.cursors = SqliteCursors(zone)
        self.rows = SqliteRows(self, zone)
        self.positions = SqlitePositions(self)

    def open(self) -> None:
        """Open the file, which is created if it does not exist."""
        if self._connection is None:
            with self._translated():
                self._connection = sqlite3.connect(
                    self._address.database,
                    timeout=_BUSY_TIMEOUT_S,
                    isolation_level=None,
                    check_same_thread=False,
                )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RetriableError(f"{self._address} is not open.")
        return self._connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate SQLite's errors to RetriableError and ConnectError."""
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.DataError, OverflowError) as error:
            raise RejectedRows(str(error)) from error
        except sqlite3.InterfaceError as error:
            raise RejectedRows(str(error)) from error
        except sqlite3.OperationalError as error:
            text = f"{self._address}: {error}"
            if any(word in str(error) for word in ("locked", "busy", "unable to open", "disk")):
                raise RetriableError(text) from error
            raise ConnectError(text) from error
        except sqlite3.Error as error:
            if "binding" in str(error):
                raise RejectedRows(str(error)) from error
            raise ConnectError(f"{self._address}: {error}") from error

    def tables(self, kinds: Sequence[str] = ("TABLE",)) -> list[TableId]:
        """All tables of users."""
        rows = self.read(
            "SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
        )
        wanted = {kind.lower() for kind in kinds}
        return [TableId(None, name) for name, kind in rows if kind in wanted and name != POSITIONS]

    def columns(self, table: TableId) -> tuple[Column, ...]:
        """A table's columns. Those of views are all nullable, because SQLite does not report NOT NULL."""
        schema = f"{self.quote(table.schema)}." if table.schema else ""
        rows = self.read(f"PRAGMA {schema}table_info({self.quote(table.name)})")
        alone = sum(1 for row in rows if row[5]) == 1
        return tuple(
            self._column(name, declared, not_null, default is not None, key, alone)
            for _, name, declared, not_null, default, key in rows
        )

    def _column(
        self, name: str, declared: str, not_null: int, filled: bool, key: int, alone: bool
    ) -> Column:
        of = mapped(declared, self._zone)
        is_row_id = bool(key) and alone and declared.upper() == "INTEGER"
        schema = of.schema if not_null or is_row_id else optional(of.schema)
        parse = checked(of.parse, name, declared)
        return Column(
            name, declared, schema, parse, key, bool(not_null) and not filled and not is_row_id
        )

    def query_columns(self, query: str) -> tuple[Column, ...]:
        """The columns of a query; types are known only for columns of tables."""
        self.open()
        with self._translated():
            cursor = self._open.execute(f"SELECT * FROM ({query}) LIMIT 1")
            first = cursor.fetchone()
            names = [description[0] for description in cursor.description]
        declared = [_declared_by(value) for value in first or [None] * len(names)]
        kinds = [
            (name, kind, mapped(kind, self._zone))
            for name, kind in zip(names, declared, strict=True)
        ]
        return tuple(
            Column(name, kind, optional(of.schema), checked(of.parse, name, kind))
            for name, kind, of in kinds
        )

    def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        self.open()
        with self._translated():
            return self._open.execute(statement, tuple(parameters)).fetchall()

    def stream(self, statement: str, size: int) -> Iterator[list[Row]]:
        """The rows in chunks; other connections can write meanwhile only in WAL mode."""
        self.open()
        with self._translated():
            cursor = self._open.execute(statement)
        while True:
            with self._translated():
                rows = cursor.fetchmany(size)
            if not rows:
                return
            yield rows

    def begin(self) -> None:
        """Start a transaction as the only writer."""
        self.open()
        self.execute("BEGIN IMMEDIATE")

    def rollback(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            with contextlib.suppress(ConnectError):
                self.execute("ROLLBACK")

    def execute(self, statement: str) -> None:
        with self._translated():
            self._open.execute(statement)

    def execute_many(self, statement: str, rows: Sequence[Row]) -> None:
        with self._translated():
            self._open.executemany(statement, rows)


class SqliteCursors(CursorDialect):
    """Cursors by the local clock, with values as they were read."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def parameter(self, number: int, type_name: str) -> str:
        return f"?{number}"

    def given(self, value: Any) -> Any:
        return value

    def is_before(self, expression: str, type_name: str, delay_ms: int) -> str:
        """The condition by the local clock, in whole seconds; numbers are milliseconds since the epoch.

        A text with an offset is an instant, but texts are ordered as strings: so its wall-clock time
        must not occur again either.
        """
        now = datetime.now(UTC) - timedelta(seconds=-(-delay_ms // 1000))
        latest = f"'{now:{_SECONDS}}'"
        settled = f"'{settled_wall_clock(now, self._zone):{_SECONDS}}'"
        shown = f"replace(substr({expression}, 1, 19), 'T', ' ')"
        is_settled = "" if self._zone is UTC else f"AND {shown} < {settled} "
        return (
            f"CASE WHEN typeof({expression}) IN ('integer', 'real') "
            f"THEN datetime(({expression}) / 1000, 'unixepoch') < {latest} "
            f"WHEN ({expression}) GLOB '*[Zz]' OR ({expression}) GLOB '*[+-][0-9][0-9]:[0-9][0-9]' "
            f"THEN datetime({expression}) < {latest} {is_settled}"
            f"ELSE datetime({expression}) < {settled} END"
        )

    def is_wall_clock(self, type_name: str) -> bool:
        """Any text without a time zone."""
        return True

    def position_at(self, moment: datetime, type_name: str) -> str:
        """A time in the format of SQLite's functions."""
        return f"{settled_wall_clock(moment, self._zone):{_SECONDS}}"


class SqliteRows(RowWriter):
    """Writes rows one after the other."""

    def __init__(self, database: Sqlite, zone: tzinfo) -> None:
        super().__init__(database)
        self._zone = zone

    def column_type(self, schema: Schema) -> str:
        return column_type(schema)

    def converter(self, column: Column, schema: Schema | None) -> Callable[[Any], Any] | None:
        return partial(stored, zone=self._zone) if needs_storing(schema) else None

    def placeholders(self, columns: Sequence[Column]) -> list[str]:
        return [f"?{number}" for number in range(1, len(columns) + 1)]


class SqlitePositions(PositionTable):
    """Offsets in the same file: a write transaction locks all of it."""

    def __init__(self, database: Sqlite) -> None:
        self._database = database

    def claim(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Claim]:
        with self._database.transaction():
            self._database.execute(_CREATE_POSITIONS)
            columns = self._database.read(f"SELECT name FROM pragma_table_info('{POSITIONS}')")
            if ("topic_id",) not in columns:  # a table of strom 0.1.0
                self._database.execute(_ADD_TOPIC_ID)
            self._database.execute_many(_CLAIM, [(connector, *one) for one in partitions])
            return self.lock(connector, partitions)

    def lock(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Claim]:
        found = {one: self._database.read(_POSITION, (connector, *one)) for one in partitions}
        return {one: Claim(*rows[0]) for one, rows in found.items() if rows}

    def store(self, connector: str, positions: Mapping[TopicPartition, StoredPosition]) -> None:
        self._database.execute_many(
            _STORE, [(*position, connector, *one) for one, position in positions.items()]
        )


def _declared_by(value: Any) -> str:
    kinds: dict[type, str] = {int: "INTEGER", float: "REAL", bytes: "BLOB"}
    return kinds.get(type(value), "TEXT")
