"""JdbcSink: writes records as rows to PostgreSQL or SQLite, exactly once.

The rows of a call and the next offset of every partition are stored in one transaction, and reading
continues from the stored offsets. The partition's row in the table of offsets is locked meanwhile, and
contains the owner's epoch: a task that was replaced finds another epoch there, and stores nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from strom.connect.api import (
    ConnectError,
    PoisonRecord,
    RecordBatch,
    RetriableError,
    SinkConnector,
    SinkContext,
    SinkRecord,
    SinkTask,
    StoredPosition,
    TopicPartition,
    resumed_position,
)
from strom.connect.api import record_batches as record_batches
from strom.connect.connectors.databases.dialect import (
    Claim,
    Database,
    Fenced,
    RejectedRows,
    Row,
    TableId,
    open_database,
)
from strom.connect.connectors.databases.ordering import batches
from strom.connect.connectors.databases.plans import (
    OffsetsByPartition,
    RowBatch,
    Run,
    WritePlan,
    from_offset,
    key_form,
    offsets_of,
    runs_of,
)
from strom.connect.connectors.databases.rows import deleted_shape, written_shape
from strom.connect.connectors.databases.sink_settings import JdbcSinkSettings
from strom.connect.connectors.databases.table_names import name_parts
from strom.connect.connectors.databases.target_tables import TargetTables

_MOST_SHAPES: Final = 1000


class JdbcSinkTask(SinkTask[JdbcSinkSettings]):
    """Writes every call at once; a flush only stores offsets behind skipped records."""

    most_at_once: ClassVar = 20_000

    def __init__(self, settings: JdbcSinkSettings, context: SinkContext) -> None:
        super().__init__(settings, context)
        self._database: Database = open_database(settings.address(), zone=settings.zone)
        self._tables = TargetTables(
            self._database, create=settings.auto_create, evolve=settings.auto_evolve
        )
        self._claims: dict[TopicPartition, Claim] = {}
        self._stored: dict[TopicPartition, int] = {}
        """The stored next offset of each partition, as far as this task knows."""
        self._topic_ids: dict[TopicPartition, str | None] = {}
        self._skipped_to: dict[TopicPartition, int] = {}
        """Offsets ahead of those, to be stored by the next flush."""
        self._plans: dict[tuple[Any, ...], WritePlan] = {}

    def start(self) -> None:
        self._database.open()

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Become the owner of these partitions, and continue from the offsets beside the rows.

        A recreated topic starts from its beginning.
        """
        self._database.open()
        claims = self._database.positions.claim(self.context.connector, partitions)
        self._claims.update(claims)
        positions: dict[TopicPartition, StoredPosition] = {}
        changed: dict[TopicPartition, StoredPosition] = {}
        for partition, claim in claims.items():
            self._topic_ids[partition] = self.context.topic_id(partition.topic) or claim.topic_id
            if claim.next_offset is not None:
                stored = StoredPosition(claim.next_offset, claim.topic_id)
                now = positions[partition] = resumed_position(stored, partition, self.context)
                if now != stored:
                    changed[partition] = now
        if changed:
            with self._database.transaction():
                self._lock(sorted(changed))
                self._database.positions.store(self.context.connector, changed)
        self._stored.update({partition: one.offset for partition, one in positions.items()})
        return {partition: one.offset for partition, one in positions.items()}

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Store the records that are not stored yet, and their offsets."""
        if not records:
            return
        parts = record_batches(records)
        spans = offsets_of(parts)
        new = spans.keys() - self._claims.keys()
        if new:
            self.open(sorted(new))
        try:
            # Tables are created before the transaction starts: two tasks may create the same one.
            self._database.open()
            planned = list(self._planned(parts))
            try:
                self._store(parts, spans, planned)
            except RejectedRows:
                self._store_in_parts(records)
        except BaseException:
            self._forget()
            raise

    def advance(self, positions: Mapping[TopicPartition, int]) -> None:
        """Advance the offsets behind skipped records, too."""
        self._skipped_to = {
            partition: position
            for partition, position in positions.items()
            if position > self._stored.get(partition, 0)
        }

    def flush(self) -> None:
        """Store offsets behind skipped records; every `put` has stored its own."""
        ahead = self._skipped_to
        if not ahead:
            return
        self._database.open()
        with self._database.transaction():
            self._lock(sorted(ahead))
            self._database.positions.store(self.context.connector, self._with_ids(ahead))
        self._stored.update(ahead)
        self._skipped_to = {}

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Release the partitions to another task."""
        for partition in partitions:
            self._claims.pop(partition, None)
            self._stored.pop(partition, None)
            self._skipped_to.pop(partition, None)

    def stop(self) -> None:
        self._database.close()

    def _forget(self) -> None:
        """After a rollback, columns and tables may not exist: look them up again."""
        self._tables.forget()
        self._plans.clear()

    def _store(
        self, records: Sequence[RecordBatch], spans: OffsetsByPartition, planned: Sequence[Run]
    ) -> None:
        with self._database.transaction():
            fresh = self._not_stored(records, spans)
            if fresh is records:
                self._write(planned)
            else:
                self._write(self._planned(fresh))
                spans = offsets_of(fresh)
            ends = {partition: span.end for partition, span in spans.items()}
            self._database.positions.store(self.context.connector, self._with_ids(ends))
        self._stored.update(ends)

    def _with_ids(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, StoredPosition]:
        return {one: StoredPosition(at, self._topic_ids[one]) for one, at in positions.items()}

    def _not_stored(
        self, records: Sequence[RecordBatch], spans: OffsetsByPartition
    ) -> Sequence[RecordBatch]:
        """Lock the offsets, and drop records that an earlier call has stored despite its error."""
        found = self._lock(sorted(spans))
        starts = {one: claim.next_offset or 0 for one, claim in found.items()}
        if all(span.first >= starts[one] for one, span in spans.items()):
            return records
        fresh = [from_offset(part, starts[part.origin]) for part in records]
        return [part for part in fresh if len(part)]

    def _lock(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Claim]:
        """Lock the offsets of partitions; Fenced if one is no longer this task's."""
        found = self._database.positions.lock(self.context.connector, partitions)
        for partition in partitions:
            now = found.get(partition)
            if now is None or now.epoch != self._claims[partition].epoch:
                raise Fenced(
                    f"Another task of connector {self.context.connector} owns partition "
                    f"{partition.partition} of topic {partition.topic} now; this task stores "
                    "nothing more."
                )
        return found

    def _write(self, planned: Iterable[Run]) -> None:
        for batch in batches(planned, self.settings.insert_mode):
            size = self.settings.batch_size
            for start in range(0, len(batch.rows), size):
                self._write_rows(batch, batch.rows[start : start + size])

    def _write_rows(self, batch: RowBatch, rows: Sequence[Row]) -> None:
        writer, mode = self._database.rows, self.settings.insert_mode
        if mode == "insert" and not batch.deletes:
            writer.insert(batch.table, batch.columns, rows)
            return
        changes = writer.upsert if mode == "upsert" else writer.update
        write = writer.delete if batch.deletes else changes
        write(batch.table, batch.columns, rows, distinct=batch.distinct)

    def _planned(self, records: Sequence[RecordBatch]) -> Iterator[Run]:
        """Runs of records that are written in the same way; creates their tables."""
        before = 0
        for part in records:
            for start, run in runs_of(part):
                try:
                    plan = self._plan(run)
                except PoisonRecord as error:
                    raise PoisonRecord(str(error), before + start + error.index) from None
                yield plan, run
            before += len(part)

    def _plan(self, run: RecordBatch) -> WritePlan:
        """The plan for these records, which all have the form of the first."""
        record = run.part(0, 1).records()[0]
        form = tuple(record.value) if record.value_schema is None and record.value else None
        identity = (
            record.topic, record.value is None, id(record.value_schema), id(record.key_schema), form,
            key_form(record.key),
        )  # fmt: skip
        plan = self._plans.get(identity)
        if plan is None or not plan.fits(record):
            plan = self._new_plan(record)
        # A null does not determine its column's type, so the column may be missing when a value needs it.
        while (place := plan.first_omitted(run)) is not None:
            try:
                plan = self._new_plan(run.part(place, place + 1).records()[0])
            except PoisonRecord as error:
                raise PoisonRecord(str(error), place) from None
        if len(self._plans) >= _MOST_SHAPES:
            self._plans.clear()
        self._plans[identity] = plan
        return plan

    def _new_plan(self, record: SinkRecord) -> WritePlan:
        deletes = record.value is None
        shape = (deleted_shape if deletes else written_shape)(record, self.settings)
        table = table_of(record.topic, self.settings.table_name_format)
        columns = self._tables.columns(table, shape.columns)
        return WritePlan(record, table, shape, columns, self._database)

    def _store_in_parts(self, records: Sequence[SinkRecord]) -> None:
        """Store records whose transaction was rejected; PoisonRecord identifies the rejected record.

        Records that are rejected together may be accepted one after the other: merged changes can
        violate a constraint that no single one does, and a trigger or index may compare keys as equal.
        """
        self._forget()
        with self._database.transaction():
            parts = record_batches(records)
            fresh = self._not_stored(parts, offsets_of(parts))
            kept = {(part.origin, offset) for part in fresh for offset in part.offsets}
            places = [n for n, one in enumerate(records) if (one.origin, one.offset) in kept]
            self._write_in_parts(records, places)
            ends = {partition: span.end for partition, span in offsets_of(fresh).items()}
            self._database.positions.store(self.context.connector, self._with_ids(ends))
        self._stored.update(ends)

    def _write_in_parts(self, records: Sequence[SinkRecord], places: Sequence[int]) -> None:
        """Write the records at these indexes; if they are rejected, each half separately."""
        self._database.execute("SAVEPOINT strom_part")
        try:
            self._write(self._planned(record_batches([records[place] for place in places])))
        except PoisonRecord as error:
            raise PoisonRecord(str(error), places[error.index]) from None
        except RejectedRows as refusal:
            self._database.execute("ROLLBACK TO SAVEPOINT strom_part")
            if len(places) == 1:
                raise PoisonRecord(str(refusal), places[0]) from refusal
            middle = len(places) // 2
            self._write_in_parts(records, places[:middle])
            self._write_in_parts(records, places[middle:])
        self._database.execute("RELEASE SAVEPOINT strom_part")


def table_of(topic: str, name_format: str) -> TableId:
    """The table of a topic; dots in the topic's name, or in quotes, are part of the table's name."""
    parts = [part.replace("${topic}", topic) for part in name_parts(name_format)]
    if len(parts) == 1:
        return TableId(None, parts[0])
    return TableId(parts[0] or None, ".".join(parts[1:]))


class JdbcSink(SinkConnector[JdbcSinkSettings]):
    """Records as rows of PostgreSQL or SQLite tables, exactly once."""

    settings_class = JdbcSinkSettings
    task_class: ClassVar[type[SinkTask[Any]]] = JdbcSinkTask

    def set_positions(self, connector: str, positions: Mapping[TopicPartition, int]) -> None:
        """Store these offsets as if the rows before them had been stored."""
        with open_database(self.settings.address()).connected() as database:
            database.positions.claim(connector, sorted(positions))
            with database.transaction():
                database.positions.lock(connector, sorted(positions))
                # The id is adopted from the topic when the connector starts.
                wanted = {one: StoredPosition(at) for one, at in positions.items()}
                database.positions.store(connector, wanted)

    def check(self) -> Mapping[str, str]:
        """Check that the database is reachable and accepts the credentials."""
        try:
            with open_database(self.settings.address()).connected() as database:
                database.tables()
        except RetriableError:
            return {}  # it may be available when the task starts
        except ConnectError as error:
            return {"connection.url": str(error)}
        return {}
