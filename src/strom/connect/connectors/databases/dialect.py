"""The interface of a database for sources and sinks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple, Self

from strom.connect.api import ConnectError, Schema, StoredPosition, TopicPartition
from strom.connect.connectors.databases.address import SQLITE, Address

Row = tuple[Any, ...]

POSITIONS = "strom_connect_positions"
"""The table in which sinks store their offsets, beside the data."""


class TableId(NamedTuple):
    """A table's name, and its schema if the database has schemas."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


class Column(NamedTuple):
    """A column of a table or query, and the conversion of its values to those of a record."""

    name: str
    type: str
    """The type in the database's notation."""
    schema: Schema
    parse: Callable[[Any], Any] | None = None
    """Converts what `read` returns to the record's value; None: no conversion. Never called with NULL."""
    key: int = 0
    """Its position in the primary key, from 1; 0 if it is not part of it."""
    required: bool = False
    """NOT NULL without a default: every new row needs a value."""
    identity: Callable[[Any], Any] | None = None
    """Maps the values of a key so that they are equal exactly if the database stores them as the same.

    It gets what `Database.converter` returns. None: only the database can compare them.
    """
    cast: str = ""
    """The type that its text is cast to, if values are written as text."""


def as_it_is(value: Any) -> Any:
    """The identity of values that the database stores as the same if Python compares them as equal."""
    return value


class NewColumn(NamedTuple):
    """A column that a sink needs."""

    name: str
    schema: Schema
    key: bool = False


class Claim(NamedTuple):
    """A partition that a sink's task owns.

    The next offset to store, the owner's epoch and the topic's id.
    """

    next_offset: int | None
    epoch: int
    topic_id: str | None
    """None: nothing is stored yet, or strom 0.1.0, which did not store it, has stored the offset."""


class RejectedRows(ConnectError):
    """The database rejects a row: a value out of range, a constraint violated."""


class Fenced(ConnectError):
    """Another task owns the partition; nothing was stored."""


class Database(ABC):
    """One connection to one database, and its catalog. Not thread-safe."""

    cursors: "CursorDialect"
    rows: "RowWriter"
    positions: "PositionTable"

    @abstractmethod
    def open(self) -> None:
        """Connect, if not connected; RetriableError if the database is unavailable."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect; does nothing if not connected."""

    @contextmanager
    def connected(self) -> Iterator[Self]:
        """Connect for a while."""
        try:
            self.open()
            yield self
        finally:
            self.close()

    @abstractmethod
    def tables(self, kinds: Sequence[str] = ("TABLE",)) -> list[TableId]:
        """All tables (and views, if `kinds` has VIEW) of users, sorted by name."""

    @abstractmethod
    def columns(self, table: TableId) -> tuple[Column, ...]:
        """A table's columns in their order; empty if the table does not exist."""

    @abstractmethod
    def query_columns(self, query: str) -> tuple[Column, ...]:
        """The columns that a query returns."""

    def quote(self, name: str) -> str:
        """A name quoted for statements."""
        return '"' + name.replace('"', '""') + '"'

    def quote_table(self, table: TableId) -> str:
        """A table's name quoted for statements."""
        name = self.quote(table.name)
        return f"{self.quote(table.schema)}.{name}" if table.schema else name

    def selected(self, expression: str) -> str:
        """The expression for the select list whose values `Column.parse` reads."""
        return expression

    @abstractmethod
    def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """All rows that a statement returns."""

    @abstractmethod
    def stream(self, statement: str, size: int) -> Iterator[list[Row]]:
        """The rows of a statement in chunks, all of one snapshot."""

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Run a statement that returns nothing."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row, one after the other."""

    @abstractmethod
    def begin(self) -> None:
        """Start a transaction of this connection."""

    def commit(self) -> None:
        """Commit the transaction: everything is durable.

        If the server becomes unavailable meanwhile, the outcome is unknown.
        """
        self.execute("COMMIT")

    @abstractmethod
    def rollback(self) -> None:
        """Roll the transaction back. Does nothing without a transaction or connection."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.begin()
        try:
            yield
            self.commit()
        except BaseException:
            self.rollback()
            raise


class CursorDialect(ABC):
    """How a source's statements compare columns with its cursor and with the time."""

    @abstractmethod
    def parameter(self, number: int, type_name: str) -> str:
        """The placeholder of a parameter (from 1) with a value that was read as this type."""

    @abstractmethod
    def given(self, value: Any) -> Any:
        """A value that was read, as the parameter of such a placeholder."""

    @abstractmethod
    def is_before(self, expression: str, type_name: str, delay_ms: int) -> str:
        """The condition that a time is more than this many milliseconds ago.

        For wall-clock times: that no earlier one will occur again, even if clocks are set back.
        """

    @abstractmethod
    def is_wall_clock(self, type_name: str) -> bool:
        """Whether times of this type are in the database's time zone."""

    @abstractmethod
    def position_at(self, moment: datetime, type_name: str) -> Any:
        """A cursor for a column of times: the rows from this moment on are behind it."""


class RowWriter(ABC):
    """Writes rows one after the other; a database may have a faster way for many distinct ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @abstractmethod
    def column_type(self, schema: Schema) -> str:
        """The type of a new column for such values."""

    @abstractmethod
    def converter(self, column: Column, schema: Schema | None) -> Callable[[Any], Any] | None:
        """The conversion of a record's value for this column; None: no conversion."""

    @abstractmethod
    def placeholders(self, columns: Sequence[Column]) -> list[str]:
        """The parameters of a statement for a row's values."""

    def insert(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Insert rows; the database rejects existing keys."""
        self._database.execute_many(self._insert_values(table, columns), rows)

    def upsert(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        """Insert rows, or update those whose key (columns with `key`) exists.

        `distinct`: no two rows have the same key. Otherwise they are applied one after the other.
        """
        statement = f"{self._insert_values(table, columns)} {self._on_conflict(columns)}"
        self._database.execute_many(statement, rows)

    def update(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        """Update the rows whose key exists; `distinct` as for `upsert`."""
        changed, same_key = self._comparisons(columns, self.placeholders(columns))
        if changed:
            name = self._database.quote_table(table)
            self._database.execute_many(f"UPDATE {name} SET {changed} WHERE {same_key}", rows)

    def delete(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        """Delete the rows with these keys; `distinct` as for `upsert`."""
        _, same_key = self._comparisons(columns, self.placeholders(columns))
        name = self._database.quote_table(table)
        self._database.execute_many(f"DELETE FROM {name} WHERE {same_key}", rows)

    def _insert_into(self, table: TableId, columns: Sequence[Column]) -> str:
        names = ", ".join(self._database.quote(column.name) for column in columns)
        return f"INSERT INTO {self._database.quote_table(table)} ({names})"

    def _insert_values(self, table: TableId, columns: Sequence[Column]) -> str:
        values = ", ".join(self.placeholders(columns))
        return f"{self._insert_into(table, columns)} VALUES ({values})"

    def _on_conflict(self, columns: Sequence[Column]) -> str:
        quote = self._database.quote
        keys = ", ".join(quote(column.name) for column in columns if column.key)
        new = [f"EXCLUDED.{quote(column.name)}" for column in columns]
        changed, _ = self._comparisons(columns, new)
        return f"ON CONFLICT ({keys}) {f'DO UPDATE SET {changed}' if changed else 'DO NOTHING'}"

    def _comparisons(
        self, columns: Sequence[Column], values: Sequence[str], alias: str = ""
    ) -> tuple[str, str]:
        """The assignments of values to the columns beside the key, and the condition for the key."""
        named = [(self._database.quote(one.name), one.key) for one in columns]
        pairs = list(zip(named, values, strict=True))
        changed = [f"{name} = {value}" for (name, key), value in pairs if not key]
        same_key = [f"{alias}{name} = {value}" for (name, key), value in pairs if key]
        return ", ".join(changed), " AND ".join(same_key)


class PositionTable(ABC):
    """The table in which a sink stores its offsets (`POSITIONS`), in the transaction of its rows."""

    @abstractmethod
    def claim(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Claim]:
        """Make the caller the owner of these partitions; the previous owner is fenced."""

    @abstractmethod
    def lock(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Claim]:
        """Within a transaction: lock these positions until it ends."""

    @abstractmethod
    def store(self, connector: str, positions: Mapping[TopicPartition, StoredPosition]) -> None:
        """Within the same transaction: store the next offset of each partition, and its topic's id."""


def open_database(address: Address, numeric_mapping: str = "none", zone: tzinfo = UTC) -> Database:
    """The database of an address, not connected yet; `zone` applies to times without one."""
    if address.kind == SQLITE:
        from strom.connect.connectors.databases.sqlite import Sqlite

        return Sqlite(address, zone)
    from strom.connect.connectors.databases.postgres import Postgres

    return Postgres(address, numeric_mapping, zone)
