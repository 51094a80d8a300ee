"""One partition at work: its log, who waits for the disk, and who waits for records."""

from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

from strom.broker.group_commit import GroupCommit, Sync
from strom.metrics.storage import PartitionReading
from strom.model.errors import ApiError, ErrorCode
from strom.storage.flush import Flush
from strom.storage.log import Appended, Log

WhenFlushed: TypeAlias = Callable[[ErrorCode], None]


class RecordsWaiter(Protocol):
    """Someone who waits for a partition to grow, or to go away."""

    def partition_changed(self) -> None:
        """Look again."""
        ...


class Partition:
    """A log, with the waiting that a log itself knows nothing of. Used by the event loop only."""

    def __init__(
        self,
        log: Log,
        commit: GroupCommit,
        leader_epoch: int,
        check_schemas: Callable[[bytearray | memoryview], None] | None = None,
    ) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.deleted = False
        self.bytes_out = 0
        """Bytes that fetches have sent since the broker started, for metrics."""
        self._first_offset = log.end_offset
        """The first that was given to a record since the broker started."""
        self._commit = commit
        self._check_schemas = check_schemas
        self._waiting_for_disk: deque[tuple[int, WhenFlushed]] = deque()
        self._waiting_for_records: dict[RecordsWaiter, None] = {}
        self._unflushed_records = 0
        self._unflushed_since_ms = 0
        self._flush_was_refused = False

    def append(
        self, batches: bytearray | memoryview, now_ms: int, *, from_client: bool = True
    ) -> Appended:
        """Append; readers see it at once, or (durable topics) when it is on disk."""
        if self.log.settings.schema_validation and self._check_schemas is not None:
            self._check_schemas(batches)
        appended = self.log.append(
            batches, now_ms=now_ms, leader_epoch=self.leader_epoch, from_client=from_client
        )
        settings = self.log.settings
        if settings.flush == "disk":
            self._commit.mark_dirty(self)
        else:
            self._unflushed_since_ms = self._unflushed_since_ms or now_ms
            self._unflushed_records += appended.last_offset - appended.base_offset + 1
            if self._unflushed_records >= settings.flush_messages:
                self._commit.mark_dirty(self)
            self._wake_readers()
        return appended

    def is_durable(self, appended: Appended) -> bool:
        """Whether what was appended is already as safe as the topic promises."""
        settings = self.log.settings
        if settings.flush == "os" and self._unflushed_records < settings.flush_messages:
            return True
        return self.log.flushed_offset > appended.last_offset

    def on_durable(self, appended: Appended, callback: WhenFlushed) -> None:
        """Call back when what was appended is on disk, or never will be."""
        self._waiting_for_disk.append((appended.last_offset, callback))

    def sync_soon(self) -> None:
        """Have what is not yet on disk synced in the next round, even after an earlier try failed."""
        self._commit.mark_dirty(self)

    def flush_if_overdue(self, now_ms: int) -> None:
        """Have all synced if `flush.ms` has passed since the oldest record, or a segment is full.

        So too if a shortage kept it from being synced before, whether or not more is appended.
        """
        since = self._unflushed_since_ms
        overdue = since and now_ms - since >= self.log.settings.flush_ms
        if overdue or self.log.wants_flush or self._flush_was_refused:
            self._commit.mark_dirty(self)

    def wait_for_records(self, waiter: RecordsWaiter) -> None:
        """Tell the waiter whenever readers can see more."""
        self._waiting_for_records[waiter] = None

    def stop_waiting(self, waiter: RecordsWaiter) -> None:
        """Tell the waiter no more."""
        self._waiting_for_records.pop(waiter, None)

    def begin_flush(self) -> Flush | None:
        """For the group commit: what has to be synced now."""
        if self.deleted:
            return None
        self._unflushed_records = self._unflushed_since_ms = 0
        self._flush_was_refused = False
        try:
            return self.log.begin_flush()
        except ApiError as error:  # this log alone is damaged; the others of the round go on
            self._flush_was_refused = True
            self.fail(error.code)
            return None

    def finish_flush(self, done: Sync) -> None:
        """For the group commit: it is on disk, so whoever waited is answered."""
        assert isinstance(done, Flush)  # noqa: S101 - it is the one that begin_flush gave
        self.log.finish_flush(done)
        waiting, flushed = self._waiting_for_disk, self.log.flushed_offset
        while waiting and waiting[0][0] < flushed:
            waiting.popleft()[1](ErrorCode.NONE)
        self._wake_readers()

    def abandon_flush(self, refused: Sync, error: ApiError) -> None:
        """For the group commit: not on disk. Who waits is told; the next append tries again."""
        assert isinstance(refused, Flush)  # noqa: S101 - it is the one that begin_flush gave
        self.log.abandon_flush(refused)
        self._flush_was_refused = True
        self.fail(error.code)

    def fail(self, code: ErrorCode) -> None:
        """Nothing that waits will reach the disk: say so to everyone."""
        while self._waiting_for_disk:
            self._waiting_for_disk.popleft()[1](code)
        self._wake_readers()

    def delete_before(self, offset: int) -> int:
        """Move the log's start up; the new start."""
        return self.log.delete_before(offset)

    def mark_deleted(self) -> None:
        """The topic is gone: whoever waits is told so."""
        self.deleted = True
        self.fail(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def check_leader_epoch(self, expected: int) -> None:
        """Refuse a client that knows an older or a newer epoch than this one; -1 knows none."""
        if expected < 0 or expected == self.leader_epoch:
            return
        if expected < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def reading(self) -> PartitionReading:
        """For metrics: what was counted here, and how large the log is."""
        log = self.log
        return PartitionReading(
            *log.partition,
            log.appended_bytes,
            self.bytes_out,
            log.end_offset - self._first_offset,
            log.size_bytes,
            log.segment_count,
            log.start_offset,
            log.end_offset,
            log.quarantined is not None,
        )

    def _wake_readers(self) -> None:
        if self._waiting_for_records:
            for waiter in tuple(self._waiting_for_records):
                waiter.partition_changed()
