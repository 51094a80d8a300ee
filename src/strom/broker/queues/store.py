"""The messages of one queue: first in memory, then in its log, until they are removed.

What must be durable is written at the end of the event loop's turn, everything else only when it exceeds
the memory. A message that was consumed before that is never written. The next messages to be delivered
are cached in memory.
"""

import logging
from collections.abc import Iterator, Sized
from typing import Protocol

from strom.broker.partition import HostedTopic, Partition
from strom.broker.queues.message_cache import OVERHEAD, MemoryShare, MessageCache
from strom.broker.queues.message_log import MessageLog
from strom.broker.queues.queue_log import QueueLog
from strom.model.clock import Clock
from strom.model.errors import ApiError, ErrorCode
from strom.queues.acknowledged import Range
from strom.queues.message import Message
from strom.queues.progress_records import QueueProgress
from strom.queues.receipts import Receipt
from strom.storage.log import Appended

log = logging.getLogger(__name__)

BATCH_BYTES = 512 * 1024


class Turn(Protocol):
    """The end of the event loop's turn."""

    def write_later(self, store: "QueueStore") -> None:
        """Have `write_messages` and then `write_progress` called."""
        ...

    def failed(self, store: "QueueStore", error: Exception) -> None:
        """Schedule a retry: the disk refuses writes."""
        ...


class TopicOpener(Protocol):
    """Creates topics for stores whose messages exceed the memory."""

    def open_topic(self, store: "QueueStore") -> None:
        """Have `opened` called with a topic, or `not_opened`."""
        ...


class QueueStore:
    def __init__(
        self,
        turn: Turn,
        topics: TopicOpener,
        clock: Clock,
        memory: MemoryShare,
        *,
        durable: bool,
        keeps_all: bool = False,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.next_position = 0
        self.log = QueueLog(clock)
        self.is_damaged = False
        """Whether its log is damaged and accepts no writes until it is restored."""
        self.consumers: Sized = ()
        """The consumers of the queue."""
        self.cache = MessageCache(memory)
        self._turn = turn
        self._topics = topics
        self._clock = clock
        self._memory = memory
        self._durable = durable
        self._keeps_all = keeps_all
        """Whether messages that are not persistent survive a restart too."""
        self._batch_bytes = batch_bytes
        self._progress = self.log.progress
        self._pending: dict[int, Message] = {}
        self._pending_bytes = 0
        self._must_write = False
        self._receipts: list[tuple[int, Receipt]] = []
        self._is_due = False
        self._wants_topic = False

    # --- life ----------------------------------------------------------------------------------

    def opened(self, topic: HostedTopic) -> None:
        """The topic exists, and is empty."""
        self.log.open(topic)
        self._wants_topic = False
        self._due()

    def not_opened(self, error: ApiError) -> None:
        """The topic cannot be created now; that is retried with the next write."""
        self._wants_topic = False
        self._receipts = _refuse(self._receipts)
        self._turn.failed(self, error)

    def load(self, topic: HostedTopic) -> QueueProgress:
        """Restore from the topic of an existing queue; return the state of its messages."""
        progress = self.log.load(topic)
        messages, changes = topic.partitions[:2]
        end = self.next_position = messages.log.end_offset
        if self._progress.must_correct or self._progress.has_several_records:
            try:
                self._progress.write_all(end)
                self.log.sync_later(changes)
            except ApiError as error:
                self._failed(changes, error)
        return progress

    def close(self) -> None:
        """The queue is deleted."""
        self.log.closed = True
        self._memory.pressed.discard(self)
        receipts, self._receipts = self._receipts, []
        _settle(receipts, durable=True)

    # --- in ------------------------------------------------------------------------------------

    def add(self, message: Message, receipt: Receipt | None) -> int:
        """Add a message and return its position."""
        position = self.next_position
        self.next_position = position + 1
        self._pending[position] = message
        self._pending_bytes += len(message.body) + OVERHEAD
        if self._durable and (message.persistent or self._keeps_all):
            self._must_write = True
            if receipt is not None:
                receipt.expect()
                self._receipts.append((position, receipt))
        if self._pending_bytes > self._memory.each // 4 and len(self.consumers):
            self._memory.pressed.add(self)
        if not self._is_due and (self._must_write or self._pending_bytes > self._memory.each):
            self._due()
        return position

    # --- out -----------------------------------------------------------------------------------

    def get(self, position: int) -> Message | None:
        """Return the message, or None if that position has none; raise MessageUnavailable for now."""
        message = self._pending.get(position) or self.cache.get(position)
        return self._read(position) if message is None else message

    def _read(self, position: int) -> Message | None:
        messages, gone = self.log.messages, self._progress.acknowledged
        if messages is None or position in gone:
            return None
        if not messages.partition.log.start_offset <= position < messages.end:
            return None
        found, first = messages.read(
            position, self._memory.each // 2, lambda one: one in gone or one in self.cache
        )
        # Messages consumed before they were written are not in the log: skip them next time.
        gone.add_range(position, first)
        self.cache.add_read(found)
        return found.get(position)

    def mark_delivered(self, position: int) -> None:
        """A consumer has it."""
        if self.cache.size:
            self.cache.lend(position)
        progress = self._progress
        if position >= progress.delivered:
            progress.delivered = position + 1
            if not self._is_due and position not in self._pending:
                self._due()

    def mark_leaving(self, position: int) -> None:
        """Drop it from the cache: it is no longer delivered, only kept until `remove`."""
        self.cache.drop(position)

    def remove(self, position: int) -> None:
        """Remove a message that was acknowledged, dropped, or is durable elsewhere."""
        self._progress.acknowledged.add(position)
        message = self._pending.pop(position, None)
        if message is not None:
            self._pending_bytes -= len(message.body) + OVERHEAD
            if self._memory.pressed and self._pending_bytes < self._memory.each // 8:
                self._memory.pressed.discard(self)
            return
        self.cache.drop(position)
        self._progress.add_gone(position)
        if not self._is_due:
            self._due()

    def remove_range(self, span: Range) -> None:
        """Remove a range of messages, some of which may be removed already."""
        start, end = span
        self._progress.acknowledged.add_range(start, end)
        if end - start < len(self._pending) + len(self.cache):
            affected = list(range(start, end))
        else:
            affected = [
                position for position in (*self._pending, *self.cache) if start <= position < end
            ]
        for position in affected:
            message = self._pending.pop(position, None)
            if message is not None:
                self._pending_bytes -= len(message.body) + OVERHEAD
            self.cache.drop(position)
        messages = self.log.messages
        written = 0 if messages is None else min(end, messages.end)
        if start < written:
            self._progress.add_gone_range(start, written)
            self._due()

    def mark_returned(self, position: int, count: int) -> None:
        """Count its returns for the delivery limit; they survive a restart."""
        self._progress.add_returned(position, count)
        self._due()

    # --- the end of the turn -------------------------------------------------------------------

    def write_messages(self) -> None:
        """Write what must be durable, or exceeds the memory."""
        self._is_due = False
        if self.log.closed or not (self._must_write or self._pending_bytes > self._memory.each):
            return
        messages = self.log.messages
        if messages is None:
            if not self._wants_topic:
                self._wants_topic = True
                self._topics.open_topic(self)
            return
        if self.is_damaged:
            self._receipts = _refuse(self._receipts)
            return
        try:
            self._check_corrected(messages.end)
            self._append_pending(messages)
        except ApiError as error:
            self._receipts = _refuse(self._receipts)
            self._failed(messages.partition, error)
            return
        self._must_write = False
        self.log.sync_later(messages.partition)
        if self._receipts:
            self._await_disk(messages.partition)

    def _check_corrected(self, end: int) -> None:
        """Raise ApiError while the log on disk may mark new positions as removed."""
        changes = self._progress.partition
        if self._progress.must_correct and changes is not None:
            try:
                self._progress.write_all(end)
            except ApiError as error:
                self._failed(changes, error)
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, "The progress of the queue is not on disk yet."
            )

    def _append_pending(self, messages: MessageLog) -> None:
        self._memory.pressed.discard(self)
        now_ms = self._clock.now_ms()
        if self.cache.size > self._memory.each // 2:
            self.cache.evict_lent()
        delivered = self._progress.delivered
        for batch in _batches(list(self._pending.items()), self._batch_bytes):
            # Messages consumed before they were written must not be looked for after a restart.
            for start, end in messages.append(batch, now_ms):
                self._progress.add_gone_range(start, end)
            for position, message in batch:
                del self._pending[position]
                self._pending_bytes -= len(message.body) + OVERHEAD
                self.cache.add(position, message, is_lent=position < delivered)

    def _await_disk(self, partition: Partition) -> None:
        receipts, self._receipts = self._receipts, []
        last = partition.log.end_offset - 1
        if last < partition.log.flushed_offset:
            # All of them were consumed before they were written.
            _settle(receipts, durable=True)
            return

        def on_durable(code: ErrorCode) -> None:
            if code is ErrorCode.NONE or self.log.closed:
                _settle(receipts, durable=True)
            elif patient := _refuse(receipts):
                self._receipts += patient
                self._must_write = True
                self._failed(partition, ApiError(code))

        partition.on_durable(Appended(last, last, -1, 0, False), on_durable)
        partition.sync_soon()

    def _failed(self, partition: Partition, error: ApiError) -> None:
        """A shortage concerns all queues and is retried; a damaged log concerns only this one."""
        if partition.log.quarantined is None:
            self._turn.failed(self, error)
        elif not self.is_damaged:
            self.is_damaged = True
            log.error(
                "%s is the damaged log of a queue, which refuses messages now: %s Restore the log from "
                "a backup, or delete the queue.",
                partition.log.partition,
                error,
            )

    def write_progress(self) -> None:
        """Write which of the messages in the log are removed."""
        messages, partition = self.log.messages, self._progress.partition
        if messages is None or partition is None or self.log.closed:
            self._progress.clear()
            return
        try:
            if self._progress.write(messages.end):
                self.log.sync_later(partition)
        except ApiError as error:
            self._failed(partition, error)

    def _due(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._turn.write_later(self)


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
    """Fail the receipts that do not wait for the disk; return the patient ones."""
    _settle([item for item in receipts if not item[1].is_patient], durable=False)
    return [item for item in receipts if item[1].is_patient]


def _settle(receipts: list[tuple[int, Receipt]], *, durable: bool) -> None:
    for _, receipt in receipts:
        receipt.settle(durable=durable)
