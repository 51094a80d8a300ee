"""The publication: which tables are followed, and under which names their changes are published.

Changes of a partition have the name of its partitioned table, or with
`publish_via_partition_root = false` the partition's own. A table that inherits from another is
published separately. The snapshot reads the same tables, so that each row is in one topic only.
"""

from typing import Final, NamedTuple

from strom.connect.api import ConnectError
from strom.connect.connectors.databases.connection_settings import did_you_mean
from strom.connect.connectors.databases.dialect import POSITIONS, TableId
from strom.connect.connectors.databases.postgres import Postgres
from strom.connect.connectors.postgres_changes.catalog import Catalog
from strom.connect.connectors.postgres_changes.names import matches
from strom.connect.connectors.postgres_changes.settings import PostgresChangesSettings

_VIA_ROOT: Final = """
SELECT coalesce((to_jsonb(p) ->> 'pubviaroot')::bool, false) FROM pg_publication p WHERE pubname = $1
"""
_PUBLISHED: Final = """
SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = $1 ORDER BY 1, 2
"""
_PARTS: Final = """
SELECT schemaname, tablename, to_jsonb(p) ->> 'rowfilter',
       ARRAY(SELECT jsonb_array_elements_text(to_jsonb(p) -> 'attnames'))
FROM pg_publication_tables p WHERE pubname = $1
"""
"""Column lists and row filters exist since PostgreSQL 15; before, both are null."""
_TABLES: Final = """
SELECT n.nspname, c.relname, c.relkind = 'p', c.relispartition
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%'
ORDER BY 1, 2
"""


class _Table(NamedTuple):
    id: TableId
    is_partitioned: bool
    is_partition: bool


class PublishedPart(NamedTuple):
    """The column list and the row filter of a published table."""

    columns: frozenset[str]
    """Empty for all columns."""
    condition: str | None
    """The row filter in SQL; None for all rows."""


WHOLE: Final = PublishedPart(frozenset(), None)


class Publication:
    """The connector's publication in the database."""

    def __init__(
        self, database: Postgres, catalog: Catalog, settings: PostgresChangesSettings
    ) -> None:
        self._database = database
        self._catalog = catalog
        self._settings = settings
        self._name = settings.publication_name

    def follows(self, table: TableId) -> bool:
        """Whether the settings select this table."""
        include, exclude = self._settings.include_patterns, self._settings.exclude_patterns
        return (
            table.name != POSITIONS
            and (not include or any(matches(pattern, table) for pattern in include))
            and not any(matches(pattern, table) for pattern in exclude)
        )

    def tables(self, *, may_be_gone: bool = False) -> list[TableId]:
        """The tables to follow; ConnectError if a named one does not exist or is not published.

        With `may_be_gone`, a named table may have been dropped while its changes are still in the
        slot.
        """
        rows = self._database.read(_TABLES)
        there = [_Table(TableId(schema, name), *kind) for schema, name, *kind in rows]
        published = self._published(there)
        for pattern in self._settings.include_patterns:
            is_gone = may_be_gone and not any(matches(pattern, one.id) for one in there)
            if not is_gone and not any(matches(pattern, table) for table in published):
                raise ConnectError(self._not_published(pattern, there))
        return [table for table in published if self.follows(table)]

    def publish(self, tables: list[TableId]) -> None:
        """Create or alter the publication so that it has these tables, as the settings allow."""
        mode = self._settings.publication_mode
        exists = self._via_root() is not None
        quoted = self._database.quote(self._name)
        if mode == "disabled" or (mode == "all_tables" and exists):
            if not exists:
                raise ConnectError(
                    f"Unknown publication {self._name}. Create it, or set "
                    "publication.autocreate.mode=filtered."
                )
            return
        if mode == "all_tables":
            self._database.execute(
                f"CREATE PUBLICATION {quoted} FOR ALL TABLES WITH (publish_via_partition_root = true)"
            )
            return
        if exists and not tables:
            return  # all were dropped; SET TABLE needs at least one
        self._refuse_without_identity(tables)
        # ONLY: otherwise tables that inherit from one would be published with it.
        names = ", ".join(f"ONLY {self._database.quote_table(table)}" for table in tables)
        if not exists:
            self._database.execute(
                f"CREATE PUBLICATION {quoted} FOR TABLE {names} "
                "WITH (publish_via_partition_root = true)"
            )
        elif set(self._published_names()) != set(tables):
            self._database.execute(f"ALTER PUBLICATION {quoted} SET TABLE {names}")

    def parts(self) -> dict[TableId, PublishedPart]:
        """The column lists and row filters of the published tables."""
        return {
            TableId(schema, name): PublishedPart(frozenset(columns), condition)
            for schema, name, condition, columns in self._database.read(_PARTS, (self._name,))
        }

    def _published(self, there: list[_Table]) -> list[TableId]:
        """All names that changes can have in the publication, or in the one to be created."""
        mode, via_root = self._settings.publication_mode, self._via_root()
        if via_root is not None and mode != "filtered":
            return [table for table in self._published_names() if table.name != POSITIONS]
        if via_root is False:
            return [one.id for one in there if not one.is_partitioned]
        return [one.id for one in there if not one.is_partition]

    def _not_published(self, pattern: str, there: list[_Table]) -> str:
        """Why the tables that a pattern matches have no changes, and what to do."""
        found = next((one for one in there if matches(pattern, one.id)), None)
        if found is None:
            near = did_you_mean(pattern, [str(one.id) for one in there])
            return f"Unknown table {pattern} in table.include.list.{near}"
        quoted = self._database.quote(self._name)
        if found.is_partitioned and self._via_root() is False:
            return (
                f"Changes of the partitioned table {found.id}, which table.include.list names, are "
                "published under the names of its partitions. Name these, or ALTER PUBLICATION "
                f"{quoted} SET (publish_via_partition_root = true)."
            )
        if found.is_partition and self._via_root() is not False:
            return (
                f"Changes of the partition {found.id}, which table.include.list names, are published "
                "under the name of its partitioned table. Name that."
            )
        return (
            f"The publication {self._name} does not publish {found.id}, which table.include.list names: "
            f"ALTER PUBLICATION {quoted} ADD TABLE {self._database.quote_table(found.id)}."
        )

    def _refuse_without_identity(self, tables: list[TableId]) -> None:
        """PostgreSQL refuses UPDATE and DELETE on a published table without replica identity."""
        if not tables:
            raise ConnectError("No table to follow: name existing tables in table.include.list.")
        for table in tables:
            relation = self._catalog.relation(table)
            known = any(column.identity for column in relation.columns)
            if relation.identity == "n" or (relation.identity == "d" and not known):
                raise ConnectError(
                    f"Table {table} has no primary key, so changes of its rows cannot be followed. Add "
                    f"one, or ALTER TABLE {table} REPLICA IDENTITY FULL, or exclude it with "
                    "table.exclude.list."
                )

    def _via_root(self) -> bool | None:
        """Whether changes of partitions have the name of their table; None without a publication."""
        rows = self._database.read(_VIA_ROOT, (self._name,))
        return bool(rows[0][0]) if rows else None

    def _published_names(self) -> list[TableId]:
        return [TableId(*row) for row in self._database.read(_PUBLISHED, (self._name,))]
