"""The key columns of tables, as of each change.

The change stream marks the columns of a table's replica identity as they were when the change was made.
With REPLICA IDENTITY FULL it marks all columns, and the primary key is only in the catalog, in its
present state. So the primary keys of these tables are stored with the position, and one that has
changed since is never guessed.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from strom.connect.api import ConnectError
from strom.connect.connectors.databases.dialect import TableId
from strom.connect.connectors.postgres_changes.names import matches
from strom.connect.connectors.postgres_changes.pgoutput import Relation

FULL: Final = "f"


class TableKey(NamedTuple):
    """The columns that identify the rows of a table; empty if the table has no key."""

    columns: frozenset[str]
    can_be_null: bool = False


class Keys:
    """The keys of all tables. Offsets share the dict `stored`, so it is replaced, never mutated."""

    def __init__(self, chosen: Iterable[tuple[str, frozenset[str]]]) -> None:
        """`chosen` are patterns of tables, and the key columns that the user chose for them."""
        self._chosen = tuple(chosen)
        self._marked: dict[int, frozenset[str]] = {}
        """Keys of tables with another identity, in case they are altered to FULL."""
        self.stored: dict[str, list[str]] = {}
        """By the table's OID as text, since offsets are JSON."""
        self._returned = self.stored
        self._gone: frozenset[str] = frozenset()
        self._gone_at = 0

    def load(self, offset: Mapping[str, Any]) -> None:
        """Load the keys of a stored offset."""
        self.stored = {oid: list(columns) for oid, columns in offset.get("keys", {}).items()}
        self._returned = self.stored

    def returned(self, offset: Mapping[str, Any]) -> None:
        """Note that everything up to this offset was returned; what follows may be read again."""
        self._returned = offset.get("keys", {})

    def rewind(self) -> None:
        """Reset to the keys as of the last returned offset."""
        self.stored = self._returned

    def learn(self, present: Mapping[int, frozenset[str]], lsn: int) -> None:
        """Store the primary keys of tables with FULL that are not known yet.

        Called after `rewind`, or at the beginning. Keys of tables that no longer exist are forgotten
        when the stream has passed `lsn`, the server's position at this time.
        """
        known = {str(oid): sorted(columns) for oid, columns in present.items()}
        self._gone, self._gone_at = frozenset(self.stored) - frozenset(known), lsn
        self.stored = self._returned = {**known, **self.stored}

    def passed(self, lsn: int) -> None:
        """Note that the stream has passed this position."""
        if self._gone and lsn >= self._gone_at:
            self.stored = {
                oid: columns for oid, columns in self.stored.items() if oid not in self._gone
            }
            self._gone = frozenset()

    def of(self, relation: Relation, present: frozenset[str] | None) -> TableKey:
        """The key of a table as of the changes that follow its description in the stream.

        `present` is its primary key in the catalog; None if the table no longer exists.
        """
        table = TableId(relation.schema, relation.name)
        columns = frozenset(column.name for column in relation.columns)
        marked = frozenset(column.name for column in relation.columns if column.identity)
        chosen = next((key for pattern, key in self._chosen if matches(pattern, table)), None)
        if relation.identity != FULL:
            if chosen is not None and chosen != marked:
                raise ConnectError(
                    f"message.key.columns names table {table}, which has no REPLICA IDENTITY FULL: a "
                    f"delete has only {_listed(marked)}. Remove it from message.key.columns, or ALTER "
                    f"TABLE {table} REPLICA IDENTITY FULL."
                )
            self._marked[relation.oid] = marked
            return TableKey(marked)
        key = chosen
        if key is None:
            key = self._resolved(relation, table, present)
        elif not key <= columns:
            raise ConnectError(
                f"Table {table} has no column {_listed(key - columns)}, which message.key.columns names; "
                f"it has {_listed(columns)}."
            )
        self.stored = {**self.stored, str(relation.oid): sorted(key)}
        return TableKey(key, can_be_null=chosen is not None and chosen != present)

    def _resolved(
        self, relation: Relation, table: TableId, present: frozenset[str] | None
    ) -> frozenset[str]:
        """The stored key or the present one, if only one of them is possible."""
        stored = self.stored.get(str(relation.oid))
        known = self._marked.get(relation.oid) if stored is None else frozenset(stored)
        candidates = {key for key in (known, present) if key is not None}
        columns = {column.name for column in relation.columns}
        possible = [key for key in candidates if key <= columns]
        if len(possible) == 1:
            return possible[0]
        if possible:
            raise ConnectError(
                f"The primary key of table {table} was {_listed(known)} and is {_listed(present)} now, "
                "and with REPLICA IDENTITY FULL the change stream does not contain which one was valid "
                f"at a change. Set message.key.columns={_chosen(table, present)} to use that key from "
                "here on, or reset the connector's offsets for a new snapshot."
            )
        raise ConnectError(
            f"The key of table {table} is unknown: the table was altered or dropped after a change with "
            f"the columns {_listed(columns)}. Set message.key.columns={_chosen(table, columns)} with "
            "those of them that are the key, or exclude the table with table.exclude.list."
        )


def _listed(columns: Iterable[str] | None) -> str:
    return f"({', '.join(sorted(columns or ()))})"


def _chosen(table: TableId, columns: Iterable[str] | None) -> str:
    return f"{table}:{','.join(sorted(columns or ()))}"
