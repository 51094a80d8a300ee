"""The two partitions of a queue's topic, and their upkeep.

Partition 0 holds the messages, partition 1 which of them are removed.
"""

from collections.abc import Awaitable, Callable, Iterator

from strom.broker.partition import HostedTopic, Partition
from strom.broker.queues.message_log import MessageLog
from strom.broker.queues.progress_log import ProgressLog
from strom.model.clock import Clock
from strom.model.errors import ErrorCode
from strom.queues.message import Message
from strom.queues.progress_records import QueueProgress


class QueueLog:
    """The logs of one queue; it has none while its messages are in memory only."""

    def __init__(self, clock: Clock) -> None:
        self.topic: HostedTopic | None = None
        self.messages: MessageLog | None = None
        """None while the queue has no topic."""
        self.progress = ProgressLog(clock)
        self.closed = False
        """Whether the queue is deleted."""
        self._clock = clock
        self._unsynced: dict[Partition, None] = {}

    def open(self, topic: HostedTopic) -> None:
        """Use a topic, which is empty."""
        self.topic = topic
        self.messages = MessageLog(topic.partitions[0])
        self.progress.partition = topic.partitions[1]

    def load(self, topic: HostedTopic) -> QueueProgress:
        """Restore from the topic of an existing queue; return the state of its messages."""
        self.topic = topic
        messages, changes = topic.partitions[:2]
        self.messages = MessageLog(messages)
        return self.progress.load(changes, messages.log.start_offset, messages.log.end_offset)

    async def loaded(self) -> None:
        """Return when the corrected progress is on disk, or cannot be for now.

        Until then, no new message may take a position that an old record marks as removed.
        """
        if self.progress.partition is not None:
            await _flushed(self.progress.partition)

    def live_messages(self) -> Iterator[tuple[int, Message]]:
        """All messages in the log that are not removed, in order."""
        if self.messages is None:
            return iter(())
        return self.messages.live_messages(self.progress.acknowledged)

    # --- background ----------------------------------------------------------------------------

    def sync_later(self, partition: Partition) -> None:
        """Sync a partition with the next `sync`: something was written to it."""
        self._unsynced[partition] = None

    def sync(self) -> None:
        """Sync to disk what was written."""
        partitions, self._unsynced = self._unsynced, {}
        for partition in partitions:
            if not self.closed:
                partition.sync_soon()

    def trim(self) -> None:
        """Delete whole segments whose messages are all removed."""
        progress = self.progress.partition
        if self.messages is not None and progress is not None and not self.closed:
            now_ms = self._clock.now_ms()
            self.messages.trim(self.progress.acknowledged.floor, now_ms)
            progress.log.delete_old_segments(now_ms)

    @property
    def is_prunable(self) -> bool:
        """Whether `prune` may find something: the messages are in several segments."""
        messages = self.messages
        return messages is not None and not self.closed and messages.partition.log.segment_count > 1

    async def prune(self, off_loop: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        """Rewrite segments in which few messages are not removed, once the progress is written.

        Otherwise one message that is never acknowledged would retain everything after it.
        """
        messages, changes = self.messages, self.progress.partition
        if messages is None or changes is None or self.progress.has_unwritten_gone:
            return  # with unwritten changes: the disk refused them
        gone = self.progress.acknowledged.copy()
        if await _flushed(changes) and not self.closed:
            await messages.prune(gone, self._clock.now_ms(), off_loop)


async def _flushed(partition: Partition) -> bool:
    """Return when what was appended is on disk, or the disk refuses it."""
    if partition.log.flushed_offset >= partition.log.end_offset:
        return True
    return await partition.wait_until_synced(partition.log.end_offset - 1) is ErrorCode.NONE
