"""Changes as records: keys, envelopes in Debezium's format, tombstones.

An envelope has the row `before` and `after`, the `op`eration (r: read in a snapshot, c: created, u:
updated, d: deleted, t: truncated), its `source`, and when it was seen (`ts_ms`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from strom.connect.api import ConnectError, Field, Schema, Type
from strom.connect.api.schema import INT64, OPTIONAL_STRING, STRING, struct
from strom.connect.connectors.databases.dialect import TableId
from strom.connect.connectors.databases.postgres_types import PostgresMapping, optional
from strom.connect.connectors.postgres_changes.keys import TableKey
from strom.connect.connectors.postgres_changes.pgoutput import (
    UNCHANGED,
    Delete,
    Insert,
    Relation,
    RelationColumn,
    Truncate,
    Tuple,
    Update,
)
from strom.connect.connectors.postgres_changes.protocol import format_lsn

_OPTIONAL_INT64: Final = optional(INT64)
SOURCE: Final = struct(
    {
        "version": STRING,
        "connector": STRING,
        "name": STRING,
        "ts_ms": INT64,
        "snapshot": OPTIONAL_STRING,
        "db": STRING,
        "schema": STRING,
        "table": STRING,
        "txId": _OPTIONAL_INT64,
        "lsn": _OPTIONAL_INT64,
    },
    name="io.debezium.connector.postgresql.Source",
)


class SourceInfo(NamedTuple):
    """The `source` of an envelope, apart from its table."""

    ts_ms: int
    lsn: int
    transaction: int | None = None
    snapshot: str = "false"


class Entry(NamedTuple):
    """Key and value of a record."""

    key: dict[str, Any] | None
    value: dict[str, Any] | None


class TableConverter:
    """Converts rows of one table, as it was at one time, to records."""

    def __init__(
        self,
        relation: Relation,
        key: TableKey,
        mapped: Callable[[RelationColumn], PostgresMapping],
        *,
        topic: str,
        server: str,
        database: str,
        unavailable: str,
        tombstones: bool,
    ) -> None:
        self.relation = relation
        self.table = TableId(relation.schema, relation.name)
        self.topic = topic
        self._server, self._database = server, database
        self._tombstones = tombstones
        types = [mapped(column) for column in relation.columns]
        self._names = [column.name for column in relation.columns]
        self._parsers = [one.parse for one in types]
        self._unavailable = [_placeholder(one.schema, unavailable) for one in types]
        self._keys = [name for name in self._names if name in key.columns]
        # The stream does not contain NOT NULL constraints; only key columns are certainly not null.
        required = frozenset() if key.can_be_null else key.columns
        fields = {
            name: one.schema if name in required else optional(one.schema)
            for name, one in zip(self._names, types, strict=True)
        }
        self.key_schema = (
            struct({name: fields[name] for name in self._keys}, name=f"{self.topic}.Key")
            if self._keys
            else None
        )
        row = Schema(
            Type.STRUCT,
            optional=True,
            name=f"{self.topic}.Value",
            fields=tuple(Field(name, schema) for name, schema in fields.items()),
        )
        self.value_schema = struct(
            {"before": row, "after": row, "source": SOURCE, "op": STRING, "ts_ms": _OPTIONAL_INT64},
            name=f"{self.topic}.Envelope",
        )

    def same_as(self, other: "TableConverter") -> bool:
        """Whether both convert alike: then this one is kept, and its schemas stay cached."""
        return (self.topic, self.key_schema, self.value_schema) == (
            other.topic,
            other.key_schema,
            other.value_schema,
        ) and self.relation == other.relation

    def read(self, values: Sequence[str | None], where: SourceInfo, now_ms: int) -> Entry:
        """Convert a row of a snapshot."""
        row = self._row(tuple(values), where)
        return Entry(self._key(row), self._envelope("r", None, row, where, now_ms))

    def entries(
        self, change: Insert | Update | Delete | Truncate, where: SourceInfo, now_ms: int
    ) -> list[Entry | None]:
        """The records of a change: mostly one, for a delete two, for a changed key three.

        None stands for a disabled tombstone: positions count the records of a change, and these
        counts must not depend on settings, which may differ after a restart.
        """
        match change:
            case Insert(_, new):
                row = self._row(new, where)
                return [Entry(self._key(row), self._envelope("c", None, row, where, now_ms))]
            case Update():
                return self._updated(change, where, now_ms)
            case Delete(_, old, _):
                return self._deleted(self._row(old, where), where, now_ms)
            case Truncate():
                return [Entry(None, self._envelope("t", None, None, where, now_ms))]

    def _updated(self, change: Update, where: SourceInfo, now_ms: int) -> list[Entry | None]:
        before = None if change.old is None else self._row(change.old, where)
        new = change.new
        if change.old is not None and change.old_is_full:
            # The new row lacks an unchanged TOAST value, but the full old row has it.
            new = tuple(
                old if value is UNCHANGED else value
                for value, old in zip(new, change.old, strict=True)
            )
        after = self._row(new, where)
        key = self._key(after)
        if before is not None and self._key(before) != key:
            created = Entry(key, self._envelope("c", None, after, where, now_ms))
            return [*self._deleted(before, where, now_ms), created]
        return [Entry(key, self._envelope("u", before, after, where, now_ms))]

    def _deleted(self, row: dict[str, Any], where: SourceInfo, now_ms: int) -> list[Entry | None]:
        key = self._key(row)
        tombstone = Entry(key, None) if self._tombstones and key is not None else None
        return [Entry(key, self._envelope("d", row, None, where, now_ms)), tombstone]

    def _row(self, values: Tuple, where: SourceInfo) -> dict[str, Any]:
        try:
            row: dict[str, Any] = {
                name: value
                if value is None or parse is None or value is UNCHANGED
                else parse(value)
                for name, value, parse in zip(self._names, values, self._parsers, strict=True)
            }
        except (ConnectError, ValueError, ArithmeticError, LookupError) as error:
            raise self._unreadable(values, where) from error
        if UNCHANGED in values:
            for name, placeholder in zip(self._names, self._unavailable, strict=True):
                if row[name] is UNCHANGED:
                    row[name] = placeholder
        return row

    def _unreadable(self, values: Tuple, where: SourceInfo) -> ConnectError:
        """The error that names the column whose value cannot be converted."""
        for column, value, parse in zip(self.relation.columns, values, self._parsers, strict=False):
            try:
                if parse is not None and isinstance(value, str):
                    parse(value)
            except (ConnectError, ValueError, ArithmeticError, LookupError) as error:
                reason = str(error).rstrip(".")
                return ConnectError(
                    f"Column {column.name} of table {self.table} has a value that cannot be converted, "
                    f"in the row at {format_lsn(where.lsn)}: {reason}. SELECT {column.type}::regtype "
                    "shows the column's type. Change it, or exclude the table with table.exclude.list."
                )
        return ConnectError(
            f"A row of table {self.table} at {format_lsn(where.lsn)} has {len(values)} values for "
            f"{len(self._names)} columns."
        )

    def _key(self, row: dict[str, Any]) -> dict[str, Any] | None:
        return {name: row[name] for name in self._keys} if self._keys else None

    def _envelope(
        self,
        operation: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        where: SourceInfo,
        now_ms: int,
    ) -> dict[str, Any]:
        source = {
            "version": "1",
            "connector": "postgresql",
            "name": self._server,
            "ts_ms": where.ts_ms,
            "snapshot": where.snapshot,
            "db": self._database,
            "schema": self.relation.schema,
            "table": self.relation.name,
            "txId": where.transaction,
            "lsn": where.lsn,
        }
        return {
            "before": before, "after": after, "source": source, "op": operation, "ts_ms": now_ms,
        }  # fmt: skip


def _placeholder(schema: Schema, text: str) -> Any:
    """The placeholder for a value that was not sent; null for types that cannot hold the text."""
    if schema.type is Type.STRING:
        return text
    return text.encode() if schema.type is Type.BYTES and schema.name is None else None
