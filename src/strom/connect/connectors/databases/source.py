"""JdbcSource: reads rows of tables in PostgreSQL and SQLite: new, updated, or all repeatedly."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from strom.connect.api import (
    ConnectError,
    InvalidSettings,
    RetriableError,
    SourceConnector,
    SourceContext,
    SourceRecord,
    SourceTask,
)
from strom.connect.connectors.databases.dialect import Database, TableId, open_database
from strom.connect.connectors.databases.reading import TIMESTAMP, TableReader
from strom.connect.connectors.databases.source_settings import JdbcSourceSettings
from strom.connect.connectors.databases.table_names import (
    find_table,
    missing_table,
    names_table,
    written_name,
)

_LONGEST_WAIT_S: Final = 0.5


class JdbcSourceTask(SourceTask[JdbcSourceSettings]):
    """Polls its tables in turn."""

    def __init__(self, settings: JdbcSourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._database = open_database(settings.address(), settings.numeric_mapping, settings.zone)
        self._readers: list[TableReader] = []
        self._due: dict[TableReader, float] = {}
        self._bulk: Iterator[list[SourceRecord]] | None = None

    def start(self) -> None:
        """Connect, and look up the columns."""
        self._database.open()
        tables: list[TableId | None] = (
            [None]
            if self.settings.query
            else list(chosen_tables(self._database, self.settings, self.settings.tables))
        )
        self._readers = [self._reader(table) for table in tables]
        self._due = dict.fromkeys(self._readers, 0.0)

    def _reader(self, table: TableId | None) -> TableReader:
        reader = TableReader(self._database, self.settings, table)
        reader.prepare()
        stored = self.context.offset(reader.partition)
        if stored is None:
            stored = self.context.offset(reader.earlier_partition)
        reader.cursor = dict(stored or {})
        initial = self.settings.timestamp_initial
        if not reader.cursor and TIMESTAMP in self.settings.mode and initial is not None:
            seconds = int(time.time()) if initial < 0 else initial // 1000
            reader.begin_at(datetime.fromtimestamp(seconds, UTC))
        return reader

    def poll(self) -> Sequence[SourceRecord]:
        """The next rows of the next table in turn."""
        try:
            self._database.open()
            if self.settings.mode == "bulk":
                return self._poll_bulk()
            return self._poll_new()
        except RetriableError:
            self._bulk = None
            self._database.close()
            raise

    def _poll_new(self) -> Sequence[SourceRecord]:
        for reader in list(self._readers):
            if self._due[reader] > time.monotonic():
                continue
            cursor = dict(reader.cursor)
            try:
                # The table may have a new column since the last poll.
                reader.prepare()
                records = reader.read()
            except BaseException:
                reader.cursor = cursor
                raise
            self._move_to_end(reader)
            if not reader.has_more:
                self._due[reader] = time.monotonic() + self.settings.poll_interval_ms / 1000
            if records:
                return records
        return self._rest()

    def _poll_bulk(self) -> Sequence[SourceRecord]:
        while True:
            if self._bulk is None:
                reader = next(
                    (one for one in self._readers if self._due[one] <= time.monotonic()), None
                )
                if reader is None:
                    return self._rest()
                self._move_to_end(reader)
                reader.prepare()
                self._bulk = self._whole_table(reader)
            records = next(self._bulk, None)
            if records is not None:
                return records
            self._bulk = None

    def _whole_table(self, reader: TableReader) -> Iterator[list[SourceRecord]]:
        """All rows of a table, which is then not due again for a while.

        If the connection is lost before the end, the table stays due: it is read again from its first
        row, because only the rows of one transaction are a consistent snapshot.
        """
        due = time.monotonic() + self.settings.poll_interval_ms / 1000
        yield from reader.read_all()
        self._due[reader] = due

    def _move_to_end(self, reader: TableReader) -> None:
        """Poll the other tables first next time: a table with endless rows must not starve them."""
        self._readers.remove(reader)
        self._readers.append(reader)

    def _rest(self) -> Sequence[SourceRecord]:
        """Nothing is due: wait briefly, or until the task stops."""
        next_due = min(self._due.values(), default=float("inf"))
        wait = min(_LONGEST_WAIT_S, max(0.0, next_due - time.monotonic()))
        self.context.stopping.wait(wait)
        return []

    def stop(self) -> None:
        self._database.close()


def chosen_tables(
    database: Database, settings: JdbcSourceSettings, names: Sequence[str] = ()
) -> list[TableId]:
    """The tables to read: the included ones, or all but the excluded. ConnectError if one is missing."""
    there = database.tables(settings.table_types)
    if not (names or settings.included):
        excluded = settings.excluded
        return [table for table in there if not any(names_table(text, table) for text in excluded)]
    views = database.tables(("VIEW",))
    chosen: dict[TableId, None] = {}
    for name in names or settings.included:
        table = find_table(name, there) or find_table(name, views)
        if table is None:
            raise missing_table(name, [*there, *views])
        chosen[table] = None
    return list(chosen)


class JdbcSource(SourceConnector[JdbcSourceSettings]):
    """Reads rows of PostgreSQL or SQLite tables."""

    settings_class = JdbcSourceSettings
    task_class: ClassVar[type[SourceTask[Any]]] = JdbcSourceTask

    def check(self) -> Mapping[str, str]:
        """Check that the configured tables and columns exist."""
        settings = self.settings
        field = "connection.url"
        unconnected = open_database(settings.address(), settings.numeric_mapping, settings.zone)
        try:
            with unconnected.connected() as database:
                tables: list[TableId | None] = [None]
                if not settings.query:
                    field = "table.whitelist"
                    tables = list(chosen_tables(database, settings))
                for table in tables:
                    field = "query" if table is None else "mode"
                    TableReader(database, settings, table).prepare()
        except RetriableError:
            return {}  # it may be available when the task starts
        except ConnectError as error:
            named = [name for name in settings.definitions() if name in str(error)]
            return {named[0] if named else field: str(error)}
        return {}

    def task_settings(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Assign the tables evenly to tasks."""
        if self.settings.query:
            return [{}]
        # Configured names are passed on unchanged: the tasks resolve them.
        tables = list(self.settings.included) or self._all_tables()
        if not tables:
            raise InvalidSettings({"table.whitelist": ["The database has no table to read."]})
        shares = [tables[first::max_tasks] for first in range(min(max_tasks, len(tables)))]
        return [{"tables": ",".join(share)} for share in shares]

    def _all_tables(self) -> list[str]:
        with open_database(self.settings.address()).connected() as database:
            return [written_name(table) for table in chosen_tables(database, self.settings)]
