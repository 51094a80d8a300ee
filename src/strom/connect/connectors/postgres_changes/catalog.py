"""Catalog queries beside the change stream: tables, keys, types and the replication slot."""

from typing import Any, Final

from strom.connect.api import ConnectError
from strom.connect.connectors.databases.dialect import TableId
from strom.connect.connectors.databases.postgres import Postgres
from strom.connect.connectors.databases.postgres_types import (
    PostgresMapping,
    TypeInfo,
    is_known,
    mapped,
)
from strom.connect.connectors.postgres_changes.continuity import Slot
from strom.connect.connectors.postgres_changes.pgoutput import Relation, RelationColumn
from strom.connect.connectors.postgres_changes.protocol import parse_lsn
from strom.connect.connectors.postgres_changes.settings import PostgresChangesSettings

_RELATION: Final = "SELECT oid::int8, relreplident::text FROM pg_class WHERE oid = to_regclass($1)"
_COLUMNS: Final = """
SELECT attname, atttypid::int8, atttypmod FROM pg_attribute
WHERE attrelid = $1::int8::oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
"""
_KEY: Final = """
SELECT a.attname FROM pg_class c
LEFT JOIN pg_index i ON i.indrelid = c.oid
  AND CASE WHEN $2 = 'i' THEN i.indisreplident ELSE i.indisprimary END
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
WHERE c.oid = $1::int8::oid
"""
_FULL_KEYS: Final = """
SELECT c.oid::int8, n.nspname, c.relname,
       array_remove(array_agg(a.attname::text), NULL)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
WHERE c.relreplident = 'f' AND c.relkind IN ('r', 'p') GROUP BY 1, 2, 3
"""
_DIMENSIONS: Final = """
SELECT a.attname, CASE WHEN t.typtype = 'd' THEN t.typndims ELSE a.attndims END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = $1::int8::oid AND a.attnum > 0
"""
_TYPE: Final = """
SELECT typbasetype::int8, CASE WHEN typcategory = 'A' THEN typelem::int8 ELSE 0 END,
       typdelim::text, typtypmod
FROM pg_type WHERE oid = $1::int8::oid
"""
_SLOT: Final = """
SELECT confirmed_flush_lsn::text, plugin::text, database::text = current_database(),
       coalesce(to_jsonb(s) ->> 'wal_status', '')
FROM pg_replication_slots s WHERE slot_name = $1
"""


class Catalog:
    """Queries the database's catalog; caches the types, which do not change."""

    def __init__(self, database: Postgres, settings: PostgresChangesSettings) -> None:
        self._database = database
        self._settings = settings
        self._types: dict[tuple[int, int, int], PostgresMapping] = {}

    def relation(self, table: TableId) -> Relation:
        """A table as the change stream would describe it; `identity` marks its key columns."""
        ((oid, identity),) = self._database.read(_RELATION, (self._database.quote_table(table),))
        keys = self.key(oid, identity) or ()
        columns = [
            RelationColumn(name, kind, modifier, name in keys)
            for name, kind, modifier in self._database.read(_COLUMNS, (oid,))
        ]
        return Relation(oid, table.schema or "public", table.name, identity, tuple(columns))

    def key(self, oid: int, identity: str = "d") -> frozenset[str] | None:
        """The columns of a table's primary key, or for `i` those of the index of its identity.

        None: there is no such table.
        """
        rows = self._database.read(_KEY, (oid, identity))
        return frozenset(name for (name,) in rows if name is not None) if rows else None

    def full_keys(self) -> dict[int, tuple[TableId, frozenset[str]]]:
        """The primary keys of all tables with REPLICA IDENTITY FULL."""
        rows = self._database.read(_FULL_KEYS)
        return {oid: (TableId(schema, name), frozenset(key)) for oid, schema, name, key in rows}

    def dimensions(self, oid: int) -> dict[str, int]:
        """The declared number of dimensions of a table's array columns."""
        rows = self._database.read(_DIMENSIONS, (oid,))
        return {name: max(dimensions, 1) for name, dimensions in rows}

    def mapped(self, oid: int, modifier: int, dimensions: int = 1) -> PostgresMapping:
        """The mapping of a type's values; of arrays with this number of dimensions."""
        found = self._types.get((oid, modifier, dimensions))
        if found is None:
            found = self._types[oid, modifier, dimensions] = self._mapped(oid, modifier, dimensions)
        return found

    def _mapped(self, oid: int, modifier: int, dimensions: int) -> PostgresMapping:
        info = TypeInfo(oid, dimensions=dimensions)
        if not is_known(oid):
            rows: list[Any] = self._database.read(_TYPE, (oid,))
            for base, item, delimiter, base_modifier in rows:
                info = TypeInfo(oid, base, item, delimiter, dimensions)
                modifier = base_modifier if base else modifier
        mapping = "best_fit" if self._settings.numeric_mapping == "double" else "none"
        return mapped(info, modifier, mapping)

    def slot(self) -> Slot | None:
        """The connector's replication slot; None if it does not exist."""
        name = self._settings.slot_name
        rows = self._database.read(_SLOT, (name,))
        if not rows:
            return None
        confirmed, plugin, is_ours, wal_status = rows[0]
        if plugin != self._settings.plugin or not is_ours:
            raise ConnectError(
                f"The replication slot {name} belongs to another database or output plugin than "
                "pgoutput. Choose another slot.name."
            )
        return Slot(parse_lsn(confirmed or "0/0"), wal_status == "lost")
