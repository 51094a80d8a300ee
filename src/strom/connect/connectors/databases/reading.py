"""Reads new rows of one table or query from a cursor.

A cursor holds the last values of the columns by which rows are ordered, in the database's notation, so
that no precision is lost: {"timestamp": "2026-01-01 12:00:00.123456+00", "incrementing": 7}.

A timestamp alone does not distinguish rows of the same moment. Such rows are always read together, and
the cursor advances with the last of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from strom.connect.api import ConnectError, Schema, SourceRecord, Type
from strom.connect.api.schema import struct
from strom.connect.connectors.databases.connection_settings import did_you_mean
from strom.connect.connectors.databases.dialect import Column, Database, Row, TableId
from strom.connect.connectors.databases.granularity import with_granularity
from strom.connect.connectors.databases.source_settings import JdbcSourceSettings
from strom.connect.connectors.databases.table_names import missing_table, written_name

TIMESTAMP: Final = "timestamp"
INCREMENTING: Final = "incrementing"
_WHOLE: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})
_UNREADABLE: Final = (ConnectError, ValueError, TypeError, LookupError, ArithmeticError)
"""What a parser raises for an invalid value."""


class Order(NamedTuple):
    """One of the expressions by which rows are ordered."""

    name: str
    """Its name in a cursor."""
    expression: str
    type: str


class TableReader:
    """Reads one table, or one query, from a cursor."""

    def __init__(
        self,
        database: Database,
        settings: JdbcSourceSettings,
        table: TableId | None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._table = table
        self.cursor: dict[str, Any] = {}
        if table is None:
            self.topic = settings.topic_prefix
            self.partition: Mapping[str, Any] = {"query": settings.query or ""}
            self._from = f"({settings.query}) AS q"
        else:
            self.topic = settings.topic_prefix + table.name
            self.partition = {"table": written_name(table)}
            self._from = database.quote_table(table)
        self._columns: tuple[Column, ...] = ()
        self._schema = Schema(Type.STRUCT)
        self._order: tuple[Order, ...] = ()
        self.has_more = False
        """Whether the last batch was full, so that the next one is due at once."""

    @property
    def earlier_partition(self) -> Mapping[str, Any]:
        """The source partition of releases before 0.1.1; several tables may share it."""
        return self.partition if self._table is None else {"table": str(self._table)}

    def prepare(self) -> None:
        """Look up the columns; ConnectError if a configured one does not exist."""
        if self._table is None:
            self._columns = self._database.query_columns(self._settings.query or "")
        else:
            self._columns = self._database.columns(self._table)
            if not self._columns:
                tables = self._database.tables(("TABLE", "VIEW"))
                raise missing_table(written_name(self._table), tables)
        self._columns = tuple(
            with_granularity(column, self._settings.granularity) for column in self._columns
        )
        name = None if self._table is None else self._table.name
        fields = {column.name: column.schema for column in self._columns}
        schema = struct(fields, name=name)
        # Keep the object of an equal schema: converters cache by identity.
        self._schema = self._schema if schema == self._schema else schema
        self._order = tuple(self._orders())

    def _orders(self) -> Iterator[Order]:
        mode = self._settings.mode
        if TIMESTAMP in mode:
            columns = [
                self._column(name, "timestamp.column.name")
                for name in self._settings.timestamp_columns
            ]
            names = [self._database.quote(column.name) for column in columns]
            alone = names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"
            if all(column.schema.optional for column in columns):
                self._refuse_null(columns[0], "timestamp.column.name")
            self._refuse_mixed_zones(columns)
            yield Order(TIMESTAMP, alone, columns[0].type)
        if INCREMENTING in mode:
            column = self._incrementing()
            if column.schema.optional:
                self._refuse_null(column, "incrementing.column.name")
            yield Order(INCREMENTING, self._database.quote(column.name), column.type)

    def _incrementing(self) -> Column:
        if self._settings.incrementing_column:
            return self._column(self._settings.incrementing_column, "incrementing.column.name")
        keys = [column for column in self._columns if column.key]
        if len(keys) == 1 and keys[0].schema.type in _WHOLE:
            return keys[0]
        raise ConnectError(
            f"{self} has no primary key of a single integer: set incrementing.column.name "
            "to a column that grows."
        )

    def _column(self, name: str, setting: str) -> Column:
        known = {column.name: column for column in self._columns}
        if name not in known:
            raise ConnectError(
                f"{self} has no column {name}, which {setting} refers to.{did_you_mean(name, known)}"
            )
        return known[name]

    def _refuse_null(self, column: Column, setting: str) -> None:
        if self._settings.validate_non_null and self._table is not None:
            raise ConnectError(
                f"Column {column.name} of {self} is nullable, and rows with null would never be read: "
                f"make it NOT NULL, choose another {setting}, or set validate.non.null=false."
            )

    def _refuse_mixed_zones(self, columns: Sequence[Column]) -> None:
        """The database would compare wall-clock times as if they were UTC."""
        kinds = {self._database.cursors.is_wall_clock(column.type) for column in columns}
        if len(kinds) > 1 and self._settings.zone is not UTC:
            types = ", ".join(f"{column.name} {column.type}" for column in columns)
            raise ConnectError(
                f"The columns in timestamp.column.name for {self} have different types "
                f"({types}): with db.timezone={self._settings.timezone} all or none must have a "
                "time zone."
            )

    def begin_at(self, moment: datetime) -> None:
        """Start from this moment; call it after `prepare`."""
        self.cursor = {TIMESTAMP: self._database.cursors.position_at(moment, self._order[0].type)}

    def __str__(self) -> str:
        return "The query" if self._table is None else f"Table {written_name(self._table)}"

    def read(self) -> list[SourceRecord]:
        """The next rows behind the cursor, at most about a batch; advances the cursor."""
        limit = self._settings.batch_rows
        conditions, parameters = self._after()
        rows = self._select(conditions, parameters, limit)
        self.has_more = len(rows) >= limit
        if self._settings.mode == TIMESTAMP and len(rows) >= limit:
            rows = self._whole_moments(rows)
        return list(self._records(rows))

    def read_all(self) -> Iterator[list[SourceRecord]]:
        """All rows, in chunks."""
        columns = ", ".join(self._selected())
        statement = f"SELECT {columns} FROM {self._from}"
        for rows in self._database.stream(statement, self._settings.batch_rows):
            yield list(self._records(rows))

    def _selected(self) -> list[str]:
        names = [self._database.quote(column.name) for column in self._columns]
        names += [order.expression for order in self._order]
        # Aliases, so that ORDER BY refers to the column and not to the selected expression.
        return [
            f'{self._database.selected(name)} AS "strom {place}"'
            for place, name in enumerate(names)
        ]

    def _select(
        self, conditions: Sequence[str], parameters: Sequence[Any], limit: int
    ) -> list[Row]:
        order = ", ".join(order.expression for order in self._order)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        ending = f" LIMIT {limit}" if limit else ""
        return self._database.read(
            f"SELECT {', '.join(self._selected())} FROM {self._from}{where} ORDER BY {order}{ending}",
            [self._database.cursors.given(value) for value in parameters],
        )

    def _after(self) -> tuple[list[str], list[Any]]:
        """The condition for rows behind the cursor, and its parameters."""
        conditions: list[str] = []
        if self._order[0].name == TIMESTAMP:
            delay = self._settings.timestamp_delay_ms
            _, expression, type_name = self._order[0]
            conditions.append(self._database.cursors.is_before(expression, type_name, delay))
        known = [order for order in self._order if self.cursor.get(order.name) is not None]
        if not known:
            return conditions, []
        places = [
            self._database.cursors.parameter(number, one.type)
            for number, one in enumerate(known, 1)
        ]
        first = known[0].expression
        if len(known) == 1:
            conditions.append(f"{first} > {places[0]}")
        else:
            second = known[1].expression
            conditions.append(
                f"({first} > {places[0]} OR ({first} = {places[0]} AND {second} > {places[1]}))"
            )
        return conditions, [self.cursor[order.name] for order in known]

    def _whole_moments(self, rows: list[Row]) -> list[Row]:
        """Drop the possibly incomplete rows of the last moment.

        If it is the only one, read all of them.
        """
        last = rows[-1][-1]
        whole = [row for row in rows if row[-1] != last]
        if whole:
            return whole
        order = self._order[0]
        place = self._database.cursors.parameter(1, order.type)
        return self._select([f"{order.expression} = {place}"], [last], 0)

    def _records(self, rows: Sequence[Row]) -> Iterator[SourceRecord]:
        names = [column.name for column in self._columns]
        parsers = [column.parse for column in self._columns]
        width = len(names)
        topic, partition, schema = self.topic, self.partition, self._schema
        for index, row in enumerate(rows):
            try:
                value = {
                    name: item if item is None or parse is None else parse(item)
                    for name, item, parse in zip(names, row, parsers, strict=False)
                }
            except _UNREADABLE:
                raise self._unreadable(row) from None
            if self._order:
                following = rows[index + 1] if index + 1 < len(rows) else None
                self._move(row, following, width)
            yield SourceRecord(partition, dict(self.cursor), topic, value, schema)

    def _unreadable(self, row: Row) -> ConnectError:
        """Which value of a row cannot be converted, and why."""
        keys = [
            f"{column.name}={str(item)[:80]}"
            for column, item in zip(self._columns, row, strict=False)
            if column.key
        ]
        where = f"{self}, row with {', '.join(keys)}" if keys else f"{self}"
        for column, item in zip(self._columns, row, strict=False):
            try:
                if item is not None and column.parse is not None:
                    column.parse(item)
            except ConnectError as error:
                return ConnectError(f"{where}, column {column.name} ({column.type}): {error}")
            except _UNREADABLE:
                return ConnectError(
                    f"{where}, column {column.name} ({column.type}): the value {str(item)[:80]!r} does "
                    "not have this type. Correct it, or read the column as text by a query."
                )
        return ConnectError(f"{where} cannot be read.")

    def _move(self, row: Row, following: Row | None, width: int) -> None:
        """Advance the cursor behind this row.

        Rows of one moment keep the previous cursor until the last.
        """
        if (
            self._settings.mode == TIMESTAMP
            and following is not None
            and following[width] == row[width]
        ):
            return
        for place, order in enumerate(self._order, width):
            value = row[place]
            is_number = order.name == INCREMENTING and isinstance(value, str) and value.isdigit()
            self.cursor[order.name] = int(value) if is_number else value
