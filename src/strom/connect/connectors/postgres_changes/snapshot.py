"""The initial snapshot: all rows of the followed tables, before their first change."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from strom.connect.api import SourceRecord
from strom.connect.connectors.databases.postgres import Postgres
from strom.connect.connectors.databases.postgres_types import is_known
from strom.connect.connectors.postgres_changes.envelope import SourceInfo, TableConverter

_IS_PARTITIONED: Final = "SELECT relkind = 'p' FROM pg_class WHERE oid = $1::int8::oid"


def snapshot_records(
    database: Postgres,
    converters: Sequence[tuple[TableConverter, str | None]],
    partition: dict[str, Any],
    offset: Mapping[str, Any],
    fetch_size: int,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Iterator[list[SourceRecord]]:
    """The rows of all tables as records, batch by batch, in the open transaction.

    Each converter comes with the row filter in SQL; None reads all rows. Only the last record has this
    `offset`; a start from any other record's offset repeats the snapshot.
    """
    lsn = offset["lsn"]
    unfinished = {"lsn": lsn, "snapshot": True}
    held: SourceRecord | None = None
    for converter, condition in converters:
        for rows in database.stream(_statement(database, converter, condition), fetch_size):
            now = now_ms()
            where = SourceInfo(now, lsn, snapshot="true")
            records = [] if held is None else [held]
            for row in rows:
                entry = converter.read(row, where, now)
                records.append(
                    SourceRecord(
                        partition, unfinished, converter.topic, entry.value, converter.value_schema,
                        entry.key, converter.key_schema,
                    )
                )  # fmt: skip
            held = records.pop()
            yield records
    if held is not None:
        held.value["source"]["snapshot"] = "last"
        yield [held._replace(source_offset=offset)]


def _statement(database: Postgres, converter: TableConverter, condition: str | None) -> str:
    relation = converter.relation
    columns = ", ".join(
        _as_in_stream(database, column.name, column.type) for column in relation.columns
    )
    # ONLY leaves out tables that inherit from it; a partitioned table has no rows of its own.
    ((is_partitioned,),) = database.read(_IS_PARTITIONED, (relation.oid,))
    only = "" if is_partitioned else "ONLY "
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {columns} FROM {only}{database.quote_table(converter.table)}{where}"


def _as_in_stream(database: Postgres, column: str, kind: int) -> str:
    """Select the same text as the change stream has; a cast to text differs for some types."""
    name = database.quote(column)
    if is_known(kind):
        return database.selected(name)
    return f"CASE WHEN {name} IS NOT NULL THEN format('%s', {name}) END"
