"""How tests follow the changes of tables: start, read, stop, and summarize the records."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from strom.connect.api import SourceRecord
from strom.connect.connectors.postgres_changes.source import PostgresChanges
from strom.testing.connectors import SourceDriver, StoredOffsets
from tests.connect.connectors.other_side import PostgresSide


@contextlib.contextmanager
def changes(
    side: PostgresSide, offsets: StoredOffsets | None = None, /, **texts: str
) -> Iterator[SourceDriver]:
    """A connector that runs; `table_include_list` is the setting `table.include.list`."""
    settings = {name.replace("_", "."): text for name, text in texts.items()}
    driver = SourceDriver(PostgresChanges, {**side.change_settings, **settings}, offsets)
    try:
        driver.start()
        yield driver
    finally:
        driver.stop()


def following(driver: SourceDriver) -> None:
    """Poll until the snapshot is over and changes stream."""
    task: Any = driver.tasks[0]
    while task._snapshot is not None:
        driver.poll()


def summaries(records: Iterable[SourceRecord]) -> list[tuple[Any, ...]]:
    """Operation and rows of each record."""
    return [
        ("tombstone", record.key)
        if record.value is None
        else (record.value["op"], record.value["before"], record.value["after"])
        for record in records
    ]
