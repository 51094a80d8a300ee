"""Change data capture of PostgreSQL tables: a snapshot, then every change in commit order.

What is delivered is confirmed to the server, which may then remove its WAL. While only other tables
change, the server's position is stored and confirmed too, so that the slot does not retain WAL.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from strom.connect.api import (
    ConnectError,
    RetriableError,
    SourceConnector,
    SourceContext,
    SourceRecord,
    SourceTask,
)
from strom.connect.api.schema import INT64, STRING, struct
from strom.connect.connectors.databases.dialect import TableId
from strom.connect.connectors.databases.postgres import Postgres
from strom.connect.connectors.databases.postgres_types import SESSION
from strom.connect.connectors.postgres_changes.catalog import Catalog
from strom.connect.connectors.postgres_changes.connection import ReplicationConnection
from strom.connect.connectors.postgres_changes.continuity import (
    Origin,
    Slot,
    refuse_other_server,
    refuse_other_slot,
)
from strom.connect.connectors.postgres_changes.envelope import SourceInfo
from strom.connect.connectors.postgres_changes.keys import Keys
from strom.connect.connectors.postgres_changes.pgoutput import (
    Begin,
    Change,
    Commit,
    Relation,
    decode,
)
from strom.connect.connectors.postgres_changes.positions import Position, StreamProgress
from strom.connect.connectors.postgres_changes.protocol import (
    Keepalive,
    ReplicationProtocolError,
    XLogData,
)
from strom.connect.connectors.postgres_changes.publication import (
    WHOLE,
    Publication,
    PublishedPart,
)
from strom.connect.connectors.postgres_changes.settings import PostgresChangesSettings
from strom.connect.connectors.postgres_changes.snapshot import snapshot_records
from strom.connect.connectors.postgres_changes.table_converters import TableConverters

_MAX_WAIT_S: Final = 0.5
_STATUS_INTERVAL_S: Final = 3.0
_IDLE_STORE_INTERVAL_S: Final = 10.0
_HEARTBEAT: Final = struct({"ts_ms": INT64}, name="io.debezium.connector.common.Heartbeat")
_HEARTBEAT_KEY: Final = struct(
    {"serverName": STRING}, name="io.debezium.connector.common.ServerNameKey"
)


class Heartbeats:
    """Heartbeat records, which store the position while no followed row changes."""

    def __init__(self, settings: PostgresChangesSettings) -> None:
        self._interval_s = settings.heartbeat_ms / 1000
        self._topic = f"{settings.heartbeat_prefix}.{settings.topic_prefix}"
        self._key = {"serverName": settings.topic_prefix}
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether to send one now; the next one is due after the interval."""
        now = time.monotonic()
        if not self._interval_s or now - self._last < self._interval_s:
            return False
        self._last = now
        return True

    def record(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> SourceRecord:
        value = {"ts_ms": _now_ms()}
        return SourceRecord(
            partition, offset, self._topic, value, _HEARTBEAT, self._key, _HEARTBEAT_KEY
        )


class PostgresChangesTask(SourceTask[PostgresChangesSettings]):
    def __init__(self, settings: PostgresChangesSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._partition = {"server": settings.topic_prefix}
        self._database = Postgres(settings.address())
        self._catalog = Catalog(self._database, settings)
        self._publication = Publication(self._database, self._catalog, settings)
        self._connection: ReplicationConnection | None = None
        self._snapshot: Iterator[list[SourceRecord]] | None = None
        self._keys = Keys(settings.chosen_keys)
        self._converters = TableConverters(self._catalog, self._publication, self._keys, settings)
        self._returned: Position | None = None
        """After the last record that `poll` returned; None until the snapshot is complete."""
        self._delivered: Position | None = None
        self._confirmed = 0
        self._progress = StreamProgress(Position(0))
        self._origin: Origin | None = None
        """The server that the position belongs to; None for an offset of strom 0.1.0."""
        self._confirms_only_stored = False
        """Whether the slot is never ahead of the position; strom 0.1.0 confirmed more."""
        self._idle_lsn = 0
        """The server's last known position when everything was delivered."""
        self._idle_is_requested = False
        self._last_idle_store = -_IDLE_STORE_INTERVAL_S
        self._snapshot_lsn = 0
        self._snapshot_is_empty = True
        self._commit_ms = 0
        """When the current transaction was committed."""
        self._held: SourceRecord | None = None
        """The last record of an open transaction: its offset depends on whether a commit follows."""
        self._last_status = time.monotonic()
        self._heartbeats = Heartbeats(settings)

    def start(self) -> None:
        """Connect, and continue at the stored position."""
        offset = self.context.offset(self._partition)
        if offset is not None and not offset.get("snapshot"):
            self._returned = self._delivered = Position.from_offset(offset)
            self._origin = Origin.from_offset(offset)
            self._confirms_only_stored = self._origin is not None
            self._keys.load(offset)
        try:
            self._connect()
        except ConnectError:
            self._disconnect()
            raise

    def poll(self) -> Sequence[SourceRecord]:
        """The next rows of the snapshot, or the next changes."""
        try:
            if self._connection is None:
                self._connect()
            if self._snapshot is not None:
                records = next(self._snapshot, None)
                if records is not None:
                    self._snapshot_is_empty = False
                    return records
                self._end_snapshot()
            return self._poll_changes()
        except ReplicationProtocolError as error:
            self._disconnect()
            raise ConnectError(f"The change stream is malformed: {error}.") from error
        except ConnectError:
            self._disconnect()
            raise

    def delivered(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """Note the positions that may be confirmed to the server."""
        for _, offset in offsets:
            if not offset.get("snapshot"):
                self._delivered = Position.from_offset(offset)
                self._confirmed = max(self._confirmed, self._delivered.lsn)

    def idle_offsets(self) -> Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """The server's position while only other tables change, at intervals."""
        now = time.monotonic()
        is_due = self._idle_is_requested or now - self._last_idle_store >= _IDLE_STORE_INTERVAL_S
        if not is_due or not self._is_idle or self._idle_lsn <= self._confirmed:
            return ()
        self._idle_is_requested = False
        self._last_idle_store = now
        self._returned = Position(self._idle_lsn)
        return [(self._partition, self._offset(self._returned))]

    def stop(self) -> None:
        """Confirm what was delivered, and disconnect."""
        if self._connection is not None and self._snapshot is None:
            try:
                self._send_status()
            except RetriableError:
                pass  # it is confirmed after the next start
        self._disconnect()
        if self.settings.drop_slot:
            self._database.open()
            self._database.execute(f"SELECT pg_drop_replication_slot('{self.settings.slot_name}')")
            self._database.close()

    # Connecting

    def _connect(self) -> None:
        self._database.open()
        tables = self._publication.tables(may_be_gone=self._returned is not None)
        self._publication.publish(tables)
        slot = self._catalog.slot()
        self._connection = ReplicationConnection(self.settings.address(), dict(SESSION))
        server = self._connection.identify()
        if self._returned is None:
            self._origin = Origin(server.system, server.timeline)
            self._confirms_only_stored = True
            self._begin(slot, tables)
            return
        history = self._connection.timeline_history
        refuse_other_server(self._returned, self._origin, server, history)
        # Only after the comparison: a failed attempt must compare again.
        self._origin = Origin(server.system, server.timeline)
        if slot is None or slot.lost:
            refuse_other_slot(self.settings.slot_name, slot, self._returned)
        self._keys.rewind()
        self._converters.learn_keys(server.lsn)
        self._stream_from(self._returned)

    def _begin(self, slot: Slot | None, tables: Sequence[TableId]) -> None:
        """Create the slot and read all rows, as no snapshot was completed yet.

        With a new slot the rows are exactly those before its first change. With an existing one (of
        an interrupted snapshot) they are newer: changes in between are delivered again, and lead to
        the same state.
        """
        if self._connection is None:
            return
        snapshot = None
        if slot is None:
            lsn, snapshot = self._connection.create_slot(self.settings.slot_name)
        elif slot.lost:
            raise ConnectError(
                f"The server removed WAL that the replication slot {self.settings.slot_name} needs. Drop "
                "the slot, and the connector creates it again."
            )
        else:
            lsn = slot.confirmed
        self._database.begin_reading(snapshot)
        self._keys.load({})
        self._converters.learn_keys(lsn)
        if self.settings.snapshot_mode != "initial":
            self._database.rollback()
            self._returned = self._delivered = Position(lsn)
            self._stream_from(self._returned)
            return
        parts = self._publication.parts()
        published = [(self._catalog.relation(one), parts.get(one, WHOLE)) for one in tables]
        self._snapshot_lsn = lsn
        self._snapshot = snapshot_records(
            self._database,
            [(self._converters.make(_part_of(*one)), one[1].condition) for one in published],
            self._partition,
            self._offset(Position(lsn)),
            self.settings.fetch_size,
        )

    def _end_snapshot(self) -> None:
        self._snapshot = None
        self._database.rollback()
        self._returned = Position(self._snapshot_lsn)
        if self._snapshot_is_empty:
            self._delivered = self._returned
        self._stream_from(self._returned)

    def _stream_from(self, position: Position) -> None:
        if self._connection is None:
            return
        self._progress = StreamProgress(position)
        self._held = None
        self._connection.start_streaming(
            self.settings.slot_name, position.lsn, self.settings.publication_name
        )
        self._last_status = time.monotonic()
        # Only now: while it streams, no other client can use the slot.
        slot = self._catalog.slot()
        if self._confirms_only_stored or slot is None:
            refuse_other_slot(self.settings.slot_name, slot, position)
        else:
            self._progress.advance(slot.confirmed)

    def _disconnect(self) -> None:
        """Discard everything that was not returned: it is sent again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._snapshot = None
        self._held = None
        self._database.close()

    # Streaming

    def _poll_changes(self) -> list[SourceRecord]:
        records = [] if self._held is None else [self._held]
        self._held = None
        deadline = time.monotonic() + _MAX_WAIT_S
        connection = self._connection
        while connection is not None:
            # Within a transaction the last record is held back.
            ready = len(records) - (self._progress.transaction is not None)
            if ready >= self.settings.batch_size:
                break
            self._send_status_if_due()
            enough = ready > 0
            wait = 0.0 if enough else deadline - time.monotonic()
            pieces = connection.receive(min(wait, _STATUS_INTERVAL_S))
            for piece in pieces:
                self._take(piece, records)
            if (enough and not pieces) or time.monotonic() >= deadline:
                break
            if self.context.stopping.is_set():
                break
        if self._progress.transaction is not None and records:
            self._held = records.pop()
        if records:
            self._returned = Position.from_offset(records[-1].source_offset)
            self._keys.returned(records[-1].source_offset)
        return records

    def _take(self, piece: XLogData | Keepalive, records: list[SourceRecord]) -> None:
        if isinstance(piece, Keepalive):
            self._keep_alive(piece, records)
            return
        match decode(piece.body):
            case Begin() as begin:
                self._progress.begin(begin)
                self._commit_ms = int(begin.at.timestamp() * 1000)
            case Commit() as commit:
                end = self._progress.commit(commit)
                if records:
                    records[-1] = records[-1]._replace(source_offset=self._offset(end))
            case Relation() as relation:
                self._converters.announce(relation)
            case None:
                pass
            case change:
                self._take_change(change, piece.start, records)

    def _take_change(self, change: Change, lsn: int, records: list[SourceRecord]) -> None:
        begin = self._progress.transaction
        if not self._progress.change() or begin is None:
            return
        where = SourceInfo(self._commit_ms, lsn, begin.transaction)
        new = [
            (number, *one)
            for number, one in enumerate(self._converters.entries(change, where, _now_ms()), 1)
            if one is not None and number > self._progress.skipped
        ]
        for number, converter, (key, value) in new:
            position = self._progress.after(number, is_last=number == new[-1][0])
            records.append(
                SourceRecord(
                    self._partition, self._offset(position), converter.topic, value,
                    None if value is None else converter.value_schema, key,
                    None if key is None else converter.key_schema,
                )
            )  # fmt: skip

    # Progress

    def _offset(self, position: Position) -> dict[str, Any]:
        offset = position.to_offset()
        if self._origin is not None:
            offset["system"], offset["timeline"] = self._origin
        if self._keys.stored:
            offset["keys"] = self._keys.stored
        return offset

    @property
    def _is_idle(self) -> bool:
        """Whether everything that was received is delivered."""
        return (
            self._delivered == self._returned
            and self._held is None
            and self._progress.transaction is None
        )

    def _keep_alive(self, piece: Keepalive, records: list[SourceRecord]) -> None:
        is_new = piece.end > self._confirmed and self._progress.is_between_transactions(piece.end)
        if is_new and self._is_idle and not records:
            self._progress.advance(piece.end)
            self._keys.passed(piece.end)
            if self._heartbeats.is_due():
                offset = self._offset(Position(piece.end))
                records.append(self._heartbeats.record(self._partition, offset))
            elif not self.settings.heartbeat_ms or piece.wants_reply:
                self._idle_lsn = piece.end
                # A server that shuts down requests replies until all of its WAL is confirmed: it
                # cannot wait for the next heartbeat.
                self._idle_is_requested |= piece.wants_reply
        if piece.wants_reply:
            self._send_status()

    def _send_status_if_due(self) -> None:
        interval = _STATUS_INTERVAL_S
        if self.settings.heartbeat_ms:
            interval = min(interval, self.settings.heartbeat_ms / 1000)
        if time.monotonic() - self._last_status >= interval:
            self._send_status()

    def _send_status(self) -> None:
        if self._connection is not None:
            self._last_status = time.monotonic()
            self._connection.send_status(self._confirmed, self._confirmed, ask=self._is_idle)


def _part_of(relation: Relation, part: PublishedPart) -> Relation:
    """The table as the change stream would describe it: with its published columns only."""
    columns = tuple(one for one in relation.columns if not part.columns or one.name in part.columns)
    return relation._replace(columns=columns)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class PostgresChanges(SourceConnector[PostgresChangesSettings]):
    """Captures every change of PostgreSQL tables by logical replication."""

    settings_class = PostgresChangesSettings
    task_class: ClassVar[type[SourceTask[Any]]] = PostgresChangesTask

    def check(self) -> Mapping[str, str]:
        """Check that the server supports logical replication, and has the tables."""
        field = "database.hostname"
        try:
            with Postgres(self.settings.address()).connected() as database:
                ((level, may),) = database.read(
                    "SELECT current_setting('wal_level'), rolreplication OR rolsuper FROM pg_roles "
                    "WHERE rolname = current_user"
                )
                if level != "logical":
                    return {
                        field: f"The server has wal_level = {level}; set wal_level = logical in "
                        "postgresql.conf and restart it."
                    }
                if not may:
                    return {
                        "database.user": "The user has no REPLICATION attribute: ALTER ROLE "
                        f'"{self.settings.user}" REPLICATION.'
                    }
                field = "table.include.list"
                Publication(database, Catalog(database, self.settings), self.settings).tables()
        except RetriableError:
            return {}  # it may be available when the task starts
        except ConnectError as error:
            return {field: str(error)}
        return {}
