"""What is asked of the database beside the change stream: tables, keys, types, slot."""

from typing import Any, Final

from strom.connect.api import ConnectError
from strom.connect.connectors.databases.dialect import TableId
from strom.connect.connectors.databases.postgres import Postgres
from strom.connect.connectors.databases.postgres_types import Mapped, TypeInfo, is_known, mapped
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
SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
WHERE i.indrelid = $1::int8::oid
  AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END
"""
_TYPE: Final = """
SELECT typbasetype::int8, CASE WHEN typcategory = 'A' THEN typelem::int8 ELSE 0 END, typtypmod
FROM pg_type WHERE oid = $1::int8::oid
"""
_SLOT: Final = """
SELECT confirmed_flush_lsn::text, plugin::text, database::text = current_database(),
       coalesce(to_jsonb(s) ->> 'wal_status', '')
FROM pg_replication_slots s WHERE slot_name = $1
"""


class Catalog:
    """Questions to the database, with answers that stay the same remembered."""

    def __init__(self, database: Postgres, settings: PostgresChangesSettings) -> None:
        self._database = database
        self._settings = settings
        self._types: dict[tuple[int, int], Mapped] = {}

    def relation(self, table: TableId) -> Relation:
        """A table as the change stream would tell it; `identity` marks its key."""
        ((oid, identity),) = self._database.read(_RELATION, (self._database.quote_table(table),))
        keys = self.key(oid)
        columns = [
            RelationColumn(name, kind, modifier, name in keys)
            for name, kind, modifier in self._database.read(_COLUMNS, (oid,))
        ]
        return Relation(oid, table.schema or "public", table.name, identity, tuple(columns))

    def key(self, oid: int) -> frozenset[str]:
        """The columns by which a table's rows are told apart; none if nothing does."""
        return frozenset(name for (name,) in self._database.read(_KEY, (oid,)))

    def mapped(self, oid: int, modifier: int) -> Mapped:
        """How values of a type travel."""
        found = self._types.get((oid, modifier))
        if found is None:
            mapping = "best_fit" if self._settings.numeric_mapping == "double" else "none"
            info = TypeInfo(oid)
            if not is_known(oid):
                rows: list[Any] = self._database.read(_TYPE, (oid,))
                for base, item, base_modifier in rows:
                    info = TypeInfo(oid, base, item)
                    modifier_of_base = base_modifier if base else modifier
                    found = mapped(info, modifier_of_base, mapping)
            found = found or mapped(info, modifier, mapping)
            self._types[oid, modifier] = found
        return found

    def slot(self) -> Slot | None:
        """The replication slot; None if there is none."""
        name = self._settings.slot_name
        rows = self._database.read(_SLOT, (name,))
        if not rows:
            return None
        confirmed, plugin, is_ours, wal_status = rows[0]
        if plugin != self._settings.plugin or not is_ours:
            raise ConnectError(
                f"The replication slot {name} is not one of this database for pgoutput; choose "
                "another slot.name."
            )
        return Slot(parse_lsn(confirmed or "0/0"), wal_status == "lost")
