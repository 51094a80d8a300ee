"""The tables that a sink writes to: looks them up, creates them, and adds columns."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from strom.connect.api import ConnectError, PoisonRecord, RetriableError
from strom.connect.api.schema import NO_DEFAULT
from strom.connect.connectors.databases.connection_settings import did_you_mean
from strom.connect.connectors.databases.dialect import Column, Database, NewColumn, TableId
from strom.connect.connectors.databases.rows import UNKNOWN


class TargetTables:
    """A cache of the tables' columns."""

    def __init__(self, database: Database, *, create: bool, evolve: bool) -> None:
        self._database = database
        self._create = create
        self._evolve = evolve
        self._known: dict[TableId, Mapping[str, Column]] = {}

    def forget(self) -> None:
        """Clear the cache: tables may have been changed."""
        self._known.clear()

    def columns(self, table: TableId, wanted: Sequence[NewColumn]) -> dict[str, Column]:
        """The table's columns for the wanted ones; creates and adds what is missing.

        A missing column that was only seen null is omitted.
        """
        known = self._known.get(table) or self._look_up(table)
        if not known:
            known = self._make(table, wanted)
        missing = [
            one for one in wanted if one.name not in known and one.schema.name != UNKNOWN.name
        ]
        if missing:
            known = self._add(table, missing, known)
        return {
            one.name: known[one.name]._replace(key=int(one.key))
            for one in wanted
            if one.name in known
        }

    def _look_up(self, table: TableId) -> Mapping[str, Column]:
        columns = {column.name: column for column in self._database.columns(table)}
        if columns:
            self._known[table] = columns
        return columns

    def _make(self, table: TableId, wanted: Sequence[NewColumn]) -> Mapping[str, Column]:
        if not self._create:
            known = [str(one) for one in self._database.tables()]
            raise ConnectError(
                f"The table {table} does not exist; set auto.create=true to create it."
                f"{did_you_mean(str(table), known)}"
            )
        seen = [one for one in wanted if one.schema.name != UNKNOWN.name]
        parts = [self._declaration(one, new_table=True) for one in seen]
        keys = ", ".join(self._database.quote(one.name) for one in seen if one.key)
        if keys:
            parts.append(f"PRIMARY KEY ({keys})")
        name = self._database.quote_table(table)
        failure = self._try(f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(parts)})")
        made = self._look_up(table)
        if not made:
            raise ConnectError(f"Table {table} could not be created: {failure}")
        return made

    def _add(
        self, table: TableId, missing: Sequence[NewColumn], known: Mapping[str, Column]
    ) -> Mapping[str, Column]:
        if not self._evolve:
            name = missing[0].name
            raise PoisonRecord(
                f"The table {table} has no column {name}; set auto.evolve=true to add it, "
                f"or fields.whitelist to omit the field.{did_you_mean(name, known)}"
            )
        if any(one.key for one in missing):
            raise ConnectError(
                f"The table {table} has no column {missing[0].name}, and key columns cannot be added."
            )
        name = self._database.quote_table(table)
        failures = {
            one.name: self._try(
                f"ALTER TABLE {name} ADD COLUMN {self._declaration(one, new_table=False)}"
            )
            for one in missing
        }
        now = self._look_up(table)
        for column, failure in failures.items():
            if column not in now:
                raise ConnectError(
                    f"Column {column} could not be added to table {table}: {failure}"
                )
        return now

    def _declaration(self, column: NewColumn, *, new_table: bool) -> str:
        schema = column.schema
        text = f"{self._database.quote(column.name)} {self._database.rows.column_type(schema)}"
        has_default = schema.default is not NO_DEFAULT and schema.default is not None
        literal = _literal(schema.default) if has_default else None
        if literal is not None:
            text += f" DEFAULT {literal}"
        # Existing rows have no value for a new column, unless it has a default.
        if column.key or (not schema.optional and (new_table or literal is not None)):
            text += " NOT NULL"
        return text

    def _try(self, statement: str) -> ConnectError | None:
        """Another task may have done the same concurrently: only the result counts."""
        try:
            self._database.execute(statement)
        except RetriableError:
            raise
        except ConnectError as error:
            return error
        return None


def _literal(value: Any) -> str | None:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return None
