"""The first partition of a queue's topic: its messages, at their positions."""

import logging
from collections.abc import Awaitable, Callable, Iterator

from strom.broker.partition import Partition
from strom.broker.queues.message_cache import OVERHEAD
from strom.broker.queues.message_records import build_message_batch, read_message
from strom.broker.replaying import records_of
from strom.model.errors import ApiError, CorruptData
from strom.queues.acknowledged import Acknowledged, Range
from strom.queues.message import Message
from strom.queues.store import MessageUnavailable
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import Record, read_records

log = logging.getLogger(__name__)

READ_BYTES = 256 * 1024


class MessageLog:
    """Appends, reads and prunes messages."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self._is_unreadable = False
        """Whether the last read failed."""

    @property
    def end(self) -> int:
        """The position after the last message."""
        return self.partition.log.end_offset

    def append(self, batch: list[tuple[int, Message]], now_ms: int) -> list[Range]:
        """Append messages; return the skipped ranges of positions. ApiError if the disk refuses."""
        expected = self.end
        data = build_message_batch(batch, expected)
        self.partition.append(data, now_ms, from_client=False)
        skipped = []
        for position, message in batch:
            if position > expected:
                skipped.append((expected, position))
            expected = position + 1
            message.record = None
        return skipped

    def live_messages(self, gone: Acknowledged) -> Iterator[tuple[int, Message]]:
        """All messages that are not removed, in order."""
        for record in records_of(self.partition.log):
            if record.offset not in gone:
                yield record.offset, read_message(record)

    def read(
        self, position: int, room: int, unwanted: Callable[[int], bool]
    ) -> tuple[dict[int, Message], int]:
        """Read a message and about `room` bytes of those that follow: they are mostly needed next.

        Also returns the position of the first record at or after `position`. Raises
        MessageUnavailable if the log cannot be read now; damaged messages are skipped.
        """
        found: dict[int, Message] = {}
        first = position
        size = 0
        try:
            data = self.partition.log.reader.read(position, min(READ_BYTES, room)).data
            for number, record in enumerate(_records_from(data, position)):
                if not number:
                    first = record.offset
                elif size > room:
                    break
                if not unwanted(record.offset):
                    message = found[record.offset] = read_message(record)
                    size += len(message.body) + OVERHEAD
        except CorruptData as error:
            log.error("Skipped a damaged message of %s: %s", self.partition.log.partition, error)
            return {}, position
        except ApiError as error:
            if not self._is_unreadable:
                self._is_unreadable = True
                partition = self.partition.log.partition
                log.warning("Cannot deliver messages of %s; retrying: %s", partition, error)
            raise MessageUnavailable from error
        self._is_unreadable = False
        return found, first

    def trim(self, floor: int, now_ms: int) -> None:
        """Delete whole segments before `floor`: all their messages are removed."""
        start = min(floor, self.partition.log.high_watermark)
        if start > self.partition.log.start_offset:
            self.partition.delete_before(start)
        self.partition.log.delete_old_segments(now_ms)

    async def prune(
        self,
        gone: Acknowledged,
        now_ms: int,
        off_loop: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        """Rewrite segments in which few messages are not removed."""
        pruning = self.partition.log.plan_pruning(gone, now_ms)
        if pruning is not None:
            await off_loop(pruning.run)
            if not self.partition.deleted:
                self.partition.log.apply_compaction(pruning)


def _records_from(data: bytes, position: int) -> Iterator[Record]:
    for at, header in headers(data):
        for record in read_records(data, at, header):
            if record.offset >= position:
                yield record
