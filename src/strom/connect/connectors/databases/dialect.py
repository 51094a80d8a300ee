"""What sources and sinks need of a database, in one small interface per database."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from strom.connect.api import ConnectError, Schema, StoredPosition, TopicPartition
from strom.connect.connectors.databases.address import SQLITE, Address

Row = tuple[Any, ...]

POSITIONS = "strom_connect_positions"
"""The table in which sinks keep how far they are, beside the data."""


class TableId(NamedTuple):
    """A table's name, and where the database has them, its schema's."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


class Column(NamedTuple):
    """A column of a table or query, and how its values become those of a record."""

    name: str
    type: str
    """The type as the database writes it."""
    schema: Schema
    parse: Callable[[Any], Any] | None = None
    """From what `read` returns to the record's value; None: it is that already. Never given NULL."""
    key: int = 0
    """Its place in the primary key, from 1; 0 if it is not in it."""
    required: bool = False
    """NOT NULL without a default: a new row has to bring it."""
    identity: Callable[[Any], Any] | None = None
    """What is equal for values of a key that the database stores as the same, and for no others.

    It is given what `Database.converter` returns. None: only the database can tell.
    """
    cast: str = ""
    """The type that its text is cast to, where values are written as text."""


def as_it_is(value: Any) -> Any:
    """The identity of values that are stored as the same if Python finds them equal."""
    return value


class NewColumn(NamedTuple):
    """A column that a sink wants to have."""

    name: str
    schema: Schema
    key: bool = False


class Claim(NamedTuple):
    """A partition that a sink's task owns: the next offset to store, owner's number and topic's id."""

    next_offset: int | None
    epoch: int
    topic_id: str | None
    """None: nothing is stored yet, or by strom 0.1.0, which did not store it."""


class RefusedRows(ConnectError):
    """The database takes a row for wrong: a value out of range, a constraint violated."""


class Fenced(ConnectError):
    """Another task owns the partition by now; what this one wanted to store was not stored."""


class Database(ABC):
    """One connection to one database. Not for several threads."""

    @abstractmethod
    def open(self) -> None:
        """Connect; RetriableError if it is away. Opening an open one is harmless."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect. Closing twice is harmless."""

    def quote(self, name: str) -> str:
        """A name as it is written in statements."""
        return '"' + name.replace('"', '""') + '"'

    def quote_table(self, table: TableId) -> str:
        """A table's name as it is written in statements."""
        name = self.quote(table.name)
        return f"{self.quote(table.schema)}.{name}" if table.schema else name

    # Reading

    @abstractmethod
    def tables(self, kinds: Sequence[str] = ("TABLE",)) -> list[TableId]:
        """Every table (and VIEW, if asked) of users, in order of their names."""

    @abstractmethod
    def columns(self, table: TableId) -> tuple[Column, ...]:
        """A table's columns in their order; none if there is no such table."""

    @abstractmethod
    def query_columns(self, query: str) -> tuple[Column, ...]:
        """What a query returns."""

    @abstractmethod
    def selected(self, expression: str) -> str:
        """An expression of the select list such that `Column.parse` understands its values."""

    @abstractmethod
    def parameter(self, number: int, type_name: str) -> str:
        """The place of a parameter (from 1) that was read from an expression of that type."""

    @abstractmethod
    def given(self, value: Any) -> Any:
        """What was read from such an expression, as that parameter."""

    @abstractmethod
    def is_before(self, expression: str, type_name: str, delay_ms: int) -> str:
        """The condition that a time lies further back than this many milliseconds.

        Of wall-clock times: that none before it will come any more, though clocks may be set back.
        """

    @abstractmethod
    def is_wall_clock(self, type_name: str) -> bool:
        """Whether times of this type mean those of the database's time zone."""

    @abstractmethod
    def position_at(self, moment: datetime, type_name: str) -> Any:
        """A cursor for a column of times: behind it are the rows from this moment on."""

    @abstractmethod
    def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """All rows that a statement returns."""

    @abstractmethod
    def stream(self, statement: str, size: int) -> Iterator[list[Row]]:
        """The rows of a statement piece by piece, all as of one moment."""

    # Writing

    @abstractmethod
    def begin(self) -> None:
        """Start a transaction."""

    @abstractmethod
    def commit(self) -> None:
        """End it: everything is stored, safely."""

    @abstractmethod
    def rollback(self) -> None:
        """End it: nothing is stored. Harmless without a transaction or connection."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.begin()
        try:
            yield
            self.commit()
        except BaseException:
            self.rollback()
            raise

    @abstractmethod
    def column_type(self, column: NewColumn) -> str:
        """The type for a column that shall hold such values."""

    @abstractmethod
    def converter(self, column: Column, schema: Schema | None) -> Callable[[Any], Any] | None:
        """How a record's value becomes one for this column; None: it is one already."""

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Run a statement that returns nothing."""

    @abstractmethod
    def insert(self, table: TableId, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Add rows."""

    @abstractmethod
    def upsert(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        """Add rows, or change those whose key (columns with `key`) is there.

        `distinct`: no two rows have the same key. Otherwise they are applied one after the other.
        """

    @abstractmethod
    def update(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        """Change the rows whose key is there; `distinct` as for `upsert`."""

    @abstractmethod
    def delete(
        self, table: TableId, columns: Sequence[Column], rows: Sequence[Row], *, distinct: bool
    ) -> None:
        """Take away the rows with these keys; `distinct` as for `upsert`."""

    # Positions

    @abstractmethod
    def claim(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Claim]:
        """Make the caller the owner of these partitions; whoever owned them is fenced."""

    @abstractmethod
    def lock_positions(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Claim]:
        """Within a transaction: nobody else changes these positions until it ends."""

    @abstractmethod
    def store(self, connector: str, positions: Mapping[TopicPartition, StoredPosition]) -> None:
        """Within the same transaction: the next offset of each partition, and its topic's id."""


def open_database(address: Address, numeric_mapping: str = "none", zone: tzinfo = UTC) -> Database:
    """The dialect for an address, not connected yet; `zone` is that of times without one."""
    if address.kind == SQLITE:
        from strom.connect.connectors.databases.sqlite import Sqlite

        return Sqlite(address, zone)
    from strom.connect.connectors.databases.postgres import Postgres

    return Postgres(address, numeric_mapping, zone)
