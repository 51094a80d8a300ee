"""The second partition of a queue's topic: which messages are gone, which were delivered and returned."""

from strom.broker.partition import Partition
from strom.broker.replaying import records_of
from strom.model.clock import Clock
from strom.model.errors import ErrorCode
from strom.queues.acknowledged import Acknowledged, Range
from strom.queues.progress_records import ALL, CHANGE, QueueProgress, encode_change, encode_snapshot
from strom.storage.log import Appended
from strom.wire.kafka.records import Record, build_batch

CHANGES_AT_MOST = 1000
"""So many records are written before one that stands for all of them."""


class ProgressLog:
    """What became of a queue's messages: in memory, and written at the end of a turn."""

    def __init__(self, clock: Clock) -> None:
        self.acknowledged = Acknowledged()
        self.partition: Partition | None = None
        """None while the queue is in memory only."""
        self.delivered = 0
        """The position after the last one that a consumer got."""
        self.must_correct = False
        """Whether the log says of positions that are still to be given that they are gone."""
        self._clock = clock
        self._gone: list[Range] = []
        self._returned: dict[int, int] = {}
        self._returned_changed: dict[int, int] = {}
        self._delivered_written = 0
        self._changes = 0

    @property
    def has_unwritten_gone(self) -> bool:
        """Whether it is not in the log yet that some messages are gone."""
        return bool(self._gone)

    def load(self, partition: Partition, start: int, end: int) -> QueueProgress:
        """Take up a log that was there before; the messages of the queue are at [start, end)."""
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
        """Whether one record could stand for those that the log has."""
        log = None if self.partition is None else self.partition.log
        return log is not None and log.end_offset - log.start_offset > 1

    def add_gone(self, position: int) -> None:
        """A message that is in the log of messages is gone."""
        gone = self._gone
        if gone and gone[-1][1] == position:
            gone[-1] = (gone[-1][0], position + 1)
        else:
            gone.append((position, position + 1))

    def add_gone_range(self, start: int, end: int) -> None:
        """The same for a range."""
        self._gone.append((start, end))

    def add_returned(self, position: int, count: int) -> None:
        """A message came back for the count-th time."""
        self._returned[position] = self._returned_changed[position] = count

    def clear(self) -> None:
        """Nothing of it has to be written: the queue is in memory only, or deleted."""
        self._gone.clear()

    def write(self, end: int) -> bool:
        """Write what has changed about messages before `end`; whether anything was written.

        ApiError if the disk refuses it.
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
        """Write a record that stands for all before it; they go when it is durable.

        ApiError if the disk refuses it.
        """
        partition = self.partition
        assert partition is not None  # noqa: S101 - the callers looked
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
        assert self.partition is not None  # noqa: S101 - the callers looked
        now_ms = self._clock.now_ms()
        batch = build_batch([Record(0, now_ms, key, value)])
        appended = self.partition.append(batch, now_ms, from_client=False)
        self._gone.clear()
        self._returned_changed.clear()
        return appended
