"""The second partition of a queue's topic: which messages are removed, delivered and returned."""

from strom.broker.partition import Partition
from strom.broker.replaying import records_of
from strom.model.clock import Clock
from strom.model.errors import ErrorCode
from strom.queues.acknowledged import Acknowledged, Range
from strom.queues.progress_records import ALL, CHANGE, QueueProgress, encode_change, encode_snapshot
from strom.storage.log import Appended
from strom.wire.kafka.records import Record, build_batch

CHANGES_AT_MOST = 1000
"""Records that are written before a snapshot replaces them."""


class ProgressLog:
    """The state of a queue's messages: in memory, and written at the end of a turn."""

    def __init__(self, clock: Clock) -> None:
        self.acknowledged = Acknowledged()
        self.partition: Partition | None = None
        """None while the queue is in memory only."""
        self.delivered = 0
        """The position after the last delivered one."""
        self.must_correct = False
        """Whether the log marks positions as removed that are not assigned yet."""
        self._clock = clock
        self._gone: list[Range] = []
        self._returned: dict[int, int] = {}
        self._returned_changed: dict[int, int] = {}
        self._delivered_written = 0
        self._changes = 0

    @property
    def has_unwritten_gone(self) -> bool:
        """Whether some removals are not in the log yet."""
        return bool(self._gone)

    def load(self, partition: Partition, start: int, end: int) -> QueueProgress:
        """Restore from an existing log; the messages of the queue are at [start, end)."""
        self.partition = partition
        progress = QueueProgress()
        for record in records_of(partition.log):
            progress.replay(record.key, record.value)
        self.must_correct = progress.reconcile(start, end)
        self.acknowledged = progress.acknowledged
        self.delivered = self._delivered_written = progress.delivered
        self._returned = dict(progress.returned)
        return progress

    @property
    def has_several_records(self) -> bool:
        """Whether a snapshot would shorten the log."""
        log = None if self.partition is None else self.partition.log
        return log is not None and log.end_offset - log.start_offset > 1

    def add_gone(self, position: int) -> None:
        """Remove a message that is in the message log."""
        gone = self._gone
        if gone and gone[-1][1] == position:
            gone[-1] = (gone[-1][0], position + 1)
        else:
            gone.append((position, position + 1))

    def add_gone_range(self, start: int, end: int) -> None:
        self._gone.append((start, end))

    def add_returned(self, position: int, count: int) -> None:
        self._returned[position] = self._returned_changed[position] = count

    def clear(self) -> None:
        """Discard unwritten changes: the queue is in memory only, or deleted."""
        self._gone.clear()

    def write(self, end: int) -> bool:
        """Write the changes to messages before `end`; False if there are none.

        Raises ApiError if the disk refuses the write.
        """
        delivered = min(self.delivered, end)
        if not self._gone and delivered <= self._delivered_written and not self._returned_changed:
            return False
        if self._changes >= CHANGES_AT_MOST:
            self.write_all(end)
            return True
        self._append(CHANGE, encode_change(self._gone, delivered, self._returned_changed.items()))
        self._delivered_written = delivered
        self._changes += 1
        return True

    def write_all(self, end: int) -> None:
        """Write a snapshot; the records before it are deleted once it is durable.

        Raises ApiError if the disk refuses the write.
        """
        partition = self.partition
        assert partition is not None  # noqa: S101 - callers check it
        self._returned = {
            position: count
            for position, count in self._returned.items()
            if position not in self.acknowledged
        }
        value = encode_snapshot(self.acknowledged, end, self.delivered, self._returned.items())
        appended = self._append(ALL, value)
        self._changes = 0
        self._delivered_written = min(self.delivered, end)

        def cut(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self.must_correct = False
                partition.delete_before(appended.base_offset)

        partition.on_durable(appended, cut)
        partition.sync_soon()

    def _append(self, key: bytes, value: bytes) -> Appended:
        assert self.partition is not None  # noqa: S101 - callers check it
        now_ms = self._clock.now_ms()
        batch = build_batch([Record(0, now_ms, key, value)])
        appended = self.partition.append(batch, now_ms, from_client=False)
        self._gone.clear()
        self._returned_changed.clear()
        return appended
