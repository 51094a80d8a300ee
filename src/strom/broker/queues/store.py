"""The messages of one queue: first in memory, then in its log, gone when nobody needs them.

What must be safe is written at the end of the event loop's turn, everything else only when there is
too much of it. A message that was consumed before that is never written. Of what is in the log some is
kept in memory too: the next to be delivered.

Partition 0 of the queue's topic holds the messages, partition 1 which of them are gone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from strom.broker.partition import Partition
from strom.broker.replaying import records_of
from strom.broker.topics import HostedTopic
from strom.model.clock import Clock
from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.queues.acknowledged import Acknowledged, Range
from strom.queues.message import Message
from strom.queues.message_records import build_message_batch, read_message
from strom.queues.progress_records import ALL, CHANGE, Progress, encode_all, encode_change
from strom.queues.queue import MessageUnavailable
from strom.queues.receipts import Receipt
from strom.storage.log import Appended
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import Record, build_batch, read_records

log = logging.getLogger(__name__)

OVERHEAD = 400
"""About what a message takes in memory besides its bytes."""
MOST_IN_MEMORY = 16 * 1024 * 1024
LEAST_IN_MEMORY = 256 * 1024
ALL_IN_MEMORY = 128 * 1024 * 1024
READ_BYTES = 256 * 1024
BATCH_BYTES = 512 * 1024
CHANGES_AT_MOST = 1000
"""So many records about progress are written before one that stands for all of them."""


class MemoryShare:
    """How many bytes of messages each queue keeps in memory; what is more goes to the log."""

    def __init__(self) -> None:
        self.each = MOST_IN_MEMORY
        self.pressed: set[QueueStore] = set()
        """Queues with consumers and much that waits for them."""

    def divide(self, queues: int) -> None:
        """Share out anew, when there are more queues or fewer."""
        self.each = max(LEAST_IN_MEMORY, min(MOST_IN_MEMORY, ALL_IN_MEMORY // max(1, queues)))


class Turn(Protocol):
    """The end of the event loop's turn."""

    def write_later(self, store: "QueueStore") -> None:
        """Have `write_messages` and then `write_progress` called."""
        ...

    def need_topic(self, store: "QueueStore") -> None:
        """Have `opened` called with a topic."""
        ...

    def failed(self, store: "QueueStore", error: Exception) -> None:
        """The disk does not take it."""
        ...


class QueueStore:
    """Messages by position."""

    def __init__(
        self,
        turn: Turn,
        clock: Clock,
        memory: MemoryShare,
        *,
        durable: bool,
        keeps_all: bool = False,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.acknowledged = Acknowledged()
        self.next_position = 0
        self.topic: HostedTopic | None = None
        self.closed = False
        self.is_damaged = False
        """Whether its log accepts nothing until it is restored."""
        self.has_consumers: Callable[[], bool] = lambda: False
        self._turn = turn
        self._clock = clock
        self._memory = memory
        self._durable = durable
        self._keeps_all = keeps_all
        """Whether even messages survive that do not ask for it."""
        self._batch_bytes = batch_bytes
        self._messages: Partition | None = None
        self._progress: Partition | None = None
        self._pending: dict[int, Message] = {}
        self._pending_bytes = 0
        self._must_write = False
        self._receipts: list[tuple[int, Receipt]] = []
        self._cached: dict[int, Message] = {}
        """Messages in the log that are in memory too: most of them are to be delivered soon."""
        self._lent: dict[int, Message] = {}
        """The same, but out with consumers: they are kept in case they come back."""
        self._cached_bytes = 0
        self._delivered = 0
        self._delivered_written = 0
        self._gone: list[Range] = []
        self._returned: dict[int, int] = {}
        self._returned_changed: dict[int, int] = {}
        self._changes = 0
        self._is_due = False
        self._wants_topic = False
        self._must_correct = False
        """Whether the log says of positions that are still to be given that they are gone."""
        self._unsynced: dict[Partition, None] = {}
        self._is_unreadable = False
        """Whether the log could not be read last time."""

    # --- life ----------------------------------------------------------------------------------

    def opened(self, topic: HostedTopic) -> None:
        """The topic is there, and empty."""
        self.topic = topic
        self._messages, self._progress = topic.partitions[:2]
        self._wants_topic = False
        self._due()

    def not_opened(self, error: ApiError) -> None:
        """The topic cannot be created now; it is tried again with the next write."""
        self._wants_topic = False
        self._receipts = _refuse(self._receipts)
        self._turn.failed(self, error)

    def load(self, topic: HostedTopic) -> Progress:
        """Take up the topic of a queue that was there before; what became of its messages."""
        self.topic = topic
        self._messages, self._progress = messages, changes = topic.partitions[:2]
        progress = Progress()
        for record in records_of(changes.log):
            progress.replay(record.key, record.value)
        end = messages.log.end_offset
        must_correct = progress.fit(messages.log.start_offset, end)
        self.acknowledged = progress.acknowledged
        self.next_position = end
        self._delivered = self._delivered_written = progress.delivered
        self._returned = dict(progress.returned)
        self._must_correct = must_correct
        if must_correct or changes.log.end_offset - changes.log.start_offset > 1:
            self._write_all()
        return progress

    async def loaded(self) -> None:
        """Return when the record of what is gone is on disk as it was corrected, or cannot be for now.

        Until it is, no new message may take a position that an old record says is gone.
        """
        if self._progress is not None:
            await _flushed(self._progress)

    def close(self) -> None:
        """The queue is deleted."""
        self.closed = True
        self._memory.pressed.discard(self)
        self._settle_receipts(safe=True)

    def live_messages(self) -> Iterator[tuple[int, Message]]:
        """Everything in the log that is not gone, in order."""
        if self._messages is not None:
            for record in records_of(self._messages.log):
                if record.offset not in self.acknowledged:
                    yield record.offset, read_message(record)

    # --- in ------------------------------------------------------------------------------------

    def add(self, message: Message, receipt: Receipt | None) -> int:
        """Keep a message; its position."""
        position = self.next_position
        self.next_position = position + 1
        self._pending[position] = message
        self._pending_bytes += len(message.body) + OVERHEAD
        if self._durable and (message.persistent or self._keeps_all):
            self._must_write = True
            if receipt is not None:
                receipt.expect()
                self._receipts.append((position, receipt))
        if self._pending_bytes > self._memory.each // 4:
            self._press()
        if not self._is_due and (self._must_write or self._pending_bytes > self._memory.each):
            self._due()
        return position

    def _press(self) -> None:
        if self.has_consumers():
            self._memory.pressed.add(self)

    # --- out -----------------------------------------------------------------------------------

    def get(self, position: int) -> Message | None:
        """A message; None if there is none at that position, MessageUnavailable if not now."""
        message = self._pending.get(position)
        if message is None:
            message = self._cached.get(position) or self._lent.get(position)
            if message is None:
                message = self._read(position)
        return message

    def delivered(self, position: int) -> None:
        """A consumer has it."""
        message = self._cached.pop(position, None)
        if message is not None:
            self._lent[position] = message
        if position >= self._delivered:
            self._delivered = position + 1
            if not self._is_due and position not in self._pending:
                self._due()

    def leaving(self, position: int) -> None:
        """Nobody gets it any more: the log is enough to keep it until it is gone."""
        self._uncache(position)

    def gone(self, position: int) -> None:
        """Nobody needs it any more."""
        self.acknowledged.add(position)
        message = self._pending.pop(position, None)
        if message is not None:
            self._pending_bytes -= len(message.body) + OVERHEAD
            if self._memory.pressed and self._pending_bytes < self._memory.each // 8:
                self._memory.pressed.discard(self)
            return
        self._uncache(position)
        gone = self._gone
        if gone and gone[-1][1] == position:
            gone[-1] = (gone[-1][0], position + 1)
        else:
            gone.append((position, position + 1))
        if not self._is_due:
            self._due()

    def gone_range(self, span: Range) -> None:
        """Nobody needs these any more."""
        start, end = span
        self.acknowledged.add_range(start, end)
        held = (self._pending, self._cached, self._lent)
        if end - start < sum(map(len, held)):
            affected = list(range(start, end))
        else:
            affected = [position for messages in held for position in messages]
        for position in affected:
            if start <= position < end:
                self._drop_from_memory(position)
        written = min(end, self._written_end)
        if start < written:
            self._gone.append((start, written))
            self._due()

    def returned(self, position: int, count: int) -> None:
        """It came back, for the so-manieth time."""
        self._returned[position] = self._returned_changed[position] = count
        self._due()

    # --- the end of the turn -------------------------------------------------------------------

    def write_messages(self) -> None:
        """Write what must be safe, or is too much."""
        self._is_due = False
        if self.closed or not (self._must_write or self._pending_bytes > self._memory.each):
            return
        if self._messages is None:
            if not self._wants_topic:
                self._wants_topic = True
                self._turn.need_topic(self)
            return
        if self.is_damaged:
            self._receipts = _refuse(self._receipts)
            return
        try:
            self._check_corrected()
            self._append_pending(self._messages)
        except ApiError as error:
            self._receipts = _refuse(self._receipts)
            self._failed(self._messages, error)
            return
        self._must_write = False
        self._unsynced[self._messages] = None
        if self._receipts:
            self._await_disk(self._messages)

    def _check_corrected(self) -> None:
        """Refuse to write messages at positions of which the disk may still say that they are gone."""
        if self._must_correct:
            self._write_all()
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, "The progress of the queue is not on disk yet."
            )

    def _append_pending(self, partition: Partition) -> None:
        self._memory.pressed.discard(self)
        now_ms = self._clock.now_ms()
        if self._cached_bytes > self._memory.each // 2:
            self._evict_lent()
        for batch in _batches(list(self._pending.items()), self._batch_bytes):
            expected = partition.log.end_offset
            data = build_message_batch(batch, expected)
            partition.append(data, now_ms, from_client=False)
            for position, message in batch:
                if (
                    position > expected
                ):  # consumed before they were written: so not left after a restart
                    self._gone.append((expected, position))
                expected = position + 1
                del self._pending[position]
                self._pending_bytes -= len(message.body) + OVERHEAD
                message.record = None
                self._cache(position, message)

    def _await_disk(self, partition: Partition) -> None:
        receipts, self._receipts = self._receipts, []
        last = partition.log.end_offset - 1
        if (
            last < partition.log.flushed_offset
        ):  # all of them were consumed before they were written
            _settle(receipts, safe=True)
            return

        def told(code: ErrorCode) -> None:
            if code is ErrorCode.NONE or self.closed:
                _settle(receipts, safe=True)
            elif patient := _refuse(receipts):
                self._receipts += patient
                self._must_write = True
                self._failed(partition, ApiError(code))

        partition.on_durable(Appended(last, last, -1, 0, False), told)
        partition.sync_soon()

    def _failed(self, partition: Partition, error: ApiError) -> None:
        """A shortage concerns all queues, and is retried; a damaged log concerns this one alone."""
        if partition.log.quarantined is None:
            self._turn.failed(self, error)
        elif not self.is_damaged:
            self.is_damaged = True
            log.error(
                "%s is the log of a queue, which refuses messages now: %s Restore the log from a "
                "backup, or delete the queue.",
                partition.log.partition,
                error,
            )

    def _settle_receipts(self, *, safe: bool) -> None:
        receipts, self._receipts = self._receipts, []
        _settle(receipts, safe=safe)

    def retry(self) -> None:
        """Write again what the disk did not take."""
        self.write_messages()
        self.write_progress()

    def write_progress(self) -> None:
        """Write which messages are gone, of those that were written."""
        if self._progress is None or self.closed:
            self._gone.clear()
            return
        delivered = min(self._delivered, self._written_end)
        if not self._gone and delivered <= self._delivered_written and not self._returned_changed:
            return
        if self._changes >= CHANGES_AT_MOST:
            self._write_all()
            return
        value = encode_change(self._gone, delivered, self._returned_changed.items())
        self._append_progress(CHANGE, value)
        self._delivered_written = delivered
        self._changes += 1

    def _write_all(self) -> None:
        """Write a record that stands for all before it; they go when it is on disk."""
        partition = self._progress
        assert partition is not None  # noqa: S101 - the callers looked
        self._returned = {
            position: count
            for position, count in self._returned.items()
            if position not in self.acknowledged
        }
        end = self._written_end
        value = encode_all(self.acknowledged, end, self._delivered, self._returned.items())
        appended = self._append_progress(ALL, value)
        if appended is None:
            return
        self._changes = 0
        self._delivered_written = min(self._delivered, end)

        def cut(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self._must_correct = False
                partition.delete_before(appended.base_offset)

        partition.on_durable(appended, cut)
        partition.sync_soon()

    def _append_progress(self, key: bytes, value: bytes) -> Appended | None:
        assert self._progress is not None  # noqa: S101 - the callers looked
        now_ms = self._clock.now_ms()
        try:
            appended = self._progress.append(
                build_batch([Record(0, now_ms, key, value)]), now_ms, from_client=False
            )
        except ApiError as error:
            self._failed(self._progress, error)
            return None
        self._gone.clear()
        self._returned_changed.clear()
        self._unsynced[self._progress] = None
        return appended

    # --- background ----------------------------------------------------------------------------

    def sync(self) -> None:
        """Have what was written synced to disk."""
        if self._unsynced:
            partitions, self._unsynced = self._unsynced, {}
            for partition in partitions:
                if not self.closed:
                    partition.sync_soon()

    def trim(self) -> None:
        """Drop whole segments whose messages are all gone."""
        if self._messages is None or self._progress is None or self.closed:
            return
        now_ms = self._clock.now_ms()
        start = min(self.acknowledged.floor, self._messages.log.high_watermark)
        if start > self._messages.log.start_offset:
            self._messages.delete_before(start)
        for partition in (self._messages, self._progress):
            partition.log.delete_old_segments(now_ms)

    async def prune(self, off_loop: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        """Rewrite segments that hold a few messages still needed among many that are gone.

        Else one message that is never acknowledged would keep everything that came after it.
        """
        messages, progress = self._messages, self._progress
        if messages is None or progress is None or self.closed or messages.log.segment_count < 2:
            return
        self.write_progress()
        if self._gone:
            return  # the disk did not take it
        gone = self.acknowledged.copy()
        if not await _flushed(progress) or self.closed:
            return
        pruning = messages.log.plan_pruning(gone, self._clock.now_ms())
        if pruning is not None:
            await off_loop(pruning.run)
            if not messages.deleted:
                messages.log.apply_compaction(pruning)

    # --- inside --------------------------------------------------------------------------------

    @property
    def _written_end(self) -> int:
        return 0 if self._messages is None else self._messages.log.end_offset

    def _due(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._turn.write_later(self)

    def _cache(self, position: int, message: Message) -> None:
        """Keep a message in memory that is in the log too, if there is room."""
        size = len(message.body) + OVERHEAD
        if self._cached_bytes + size <= self._memory.each:
            cache = self._lent if position < self._delivered else self._cached
            cache[position] = message
            self._cached_bytes += size

    def _evict_lent(self) -> None:
        """Make room: what is out with consumers is needed only if it comes back."""
        for message in self._lent.values():
            self._cached_bytes -= len(message.body) + OVERHEAD
        self._lent.clear()

    def _make_room(self, size: int) -> None:
        """Let what was cached last go first: it is mostly what is needed last."""
        if self._cached_bytes + size > self._memory.each:
            self._evict_lent()
        while self._cached and self._cached_bytes + size > self._memory.each:
            _, message = self._cached.popitem()
            self._cached_bytes -= len(message.body) + OVERHEAD

    def _drop_from_memory(self, position: int) -> None:
        message = self._pending.pop(position, None)
        if message is not None:
            self._pending_bytes -= len(message.body) + OVERHEAD
        self._uncache(position)

    def _uncache(self, position: int) -> None:
        message = self._cached.pop(position, None) or self._lent.pop(position, None)
        if message is not None:
            self._cached_bytes -= len(message.body) + OVERHEAD

    def _read(self, position: int) -> Message | None:
        """Read a message from the log, and keep those that follow: they mostly are wanted next."""
        partition = self._messages
        if partition is None or not partition.log.start_offset <= position < self._written_end:
            return None
        if position in self.acknowledged:
            return None
        room = self._memory.each // 2
        found: dict[int, Message] = {}
        first = position
        size = 0
        try:
            data = partition.log.read(position, min(READ_BYTES, room)).data
            for number, record in enumerate(_records_from(data, position)):
                if not number:
                    first = record.offset
                elif size > room:
                    break
                if self._is_wanted(record.offset):
                    message = found[record.offset] = read_message(record)
                    size += len(message.body) + OVERHEAD
        except CorruptData as error:
            log.error("A message of %s is left out: %s", partition.log.partition, error)
            return None
        except ApiError as error:
            if not self._is_unreadable:
                self._is_unreadable = True
                log.warning(
                    "Messages wait until %s is readable: %s", partition.log.partition, error
                )
            raise MessageUnavailable from error
        self._is_unreadable = False
        # What was consumed before it was written is not in the log: do not look for it again.
        self.acknowledged.add_range(position, first)
        if size <= self._memory.each:
            self._make_room(size)
            self._cached.update(found)
            self._cached_bytes += size
        return found.get(position)

    def _is_wanted(self, position: int) -> bool:
        return (
            position not in self._cached
            and position not in self._lent
            and position not in self.acknowledged
        )


async def _flushed(partition: Partition) -> bool:
    """Return when what was appended is on disk, or cannot be brought there."""
    if partition.log.flushed_offset >= partition.log.end_offset:
        return True
    last = partition.log.end_offset - 1
    flushed: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    partition.on_durable(Appended(last, last, -1, 0, False), flushed.set_result)
    partition.sync_soon()
    return await flushed is ErrorCode.NONE


def _records_from(data: bytes, position: int) -> Iterator[Record]:
    for at, header in headers(data):
        for record in read_records(data, at, header):
            if record.offset >= position:
                yield record


def _batches(
    items: list[tuple[int, Message]], batch_bytes: int
) -> Iterator[list[tuple[int, Message]]]:
    """Split messages into batches that are small enough to be read again for one of them."""
    start = size = 0
    for index, (_, message) in enumerate(items):
        size += len(message.body) + OVERHEAD
        if size >= batch_bytes:
            yield items[start : index + 1]
            start, size = index + 1, 0
    if start < len(items):
        yield items[start:]


def _refuse(receipts: list[tuple[int, Receipt]]) -> list[tuple[int, Receipt]]:
    """Say that the disk does not take them; those who rather wait are left."""
    _settle([item for item in receipts if not item[1].is_patient], safe=False)
    return [item for item in receipts if item[1].is_patient]


def _settle(receipts: list[tuple[int, Receipt]], *, safe: bool) -> None:
    for _, receipt in receipts:
        receipt.settle(safe=safe)
