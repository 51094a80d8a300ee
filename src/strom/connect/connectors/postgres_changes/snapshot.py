"""All rows of the followed tables, as of one moment, before their changes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from strom.connect.api import SourceRecord
from strom.connect.connectors.databases.postgres import Postgres
from strom.connect.connectors.databases.postgres_types import is_known
from strom.connect.connectors.postgres_changes.envelope import TableForm, Where

_IS_PARTITIONED: Final = "SELECT relkind = 'p' FROM pg_class WHERE oid = $1::int8::oid"


def snapshot_records(
    database: Postgres,
    forms: Sequence[tuple[TableForm, str | None]],
    partition: dict[str, Any],
    offset: Mapping[str, Any],
    fetch_size: int,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Iterator[list[SourceRecord]]:
    """The rows of all tables as records, piece by piece, within the transaction that is open.

    With each form comes the condition, in SQL, on the rows to read; None reads all of them.
    Only the last record has this `offset`; a start from another record's begins the snapshot again.
    """
    lsn = offset["lsn"]
    unfinished = {"lsn": lsn, "snapshot": True}
    held: SourceRecord | None = None
    for form, condition in forms:
        for rows in database.stream(_statement(database, form, condition), fetch_size):
            now = now_ms()
            where = Where(now, lsn, snapshot="true")
            records = [] if held is None else [held]
            for row in rows:
                entry = form.read(row, where, now)
                records.append(
                    SourceRecord(
                        partition, unfinished, form.topic, entry.value, form.value_schema, entry.key,
                        form.key_schema,
                    )
                )  # fmt: skip
            held = records.pop()
            yield records
    if held is not None:
        held.value["source"]["snapshot"] = "last"
        yield [held._replace(source_offset=offset)]


def _statement(database: Postgres, form: TableForm, condition: str | None) -> str:
    relation = form.relation
    columns = ", ".join(
        _as_in_the_stream(database, column.name, column.type) for column in relation.columns
    )
    # The rows of tables that inherit from it are theirs; a partitioned table has none of its own.
    ((is_partitioned,),) = database.read(_IS_PARTITIONED, (relation.oid,))
    only = "" if is_partitioned else "ONLY "
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {columns} FROM {only}{database.quote_table(form.table)}{where}"


def _as_in_the_stream(database: Postgres, column: str, kind: int) -> str:
    """The text that the change stream has for the same value; a cast makes another of some types."""
    name = database.quote(column)
    if is_known(kind):
        return database.selected(name)
    return f"CASE WHEN {name} IS NOT NULL THEN format('%s', {name}) END"
