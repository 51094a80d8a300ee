"""Bugs in how records are kept and served, each of which the checker must find."""

import asyncio
import os
from collections import defaultdict
from pathlib import Path

from strom.broker.partition import Partition
from strom.model.errors import ApiError
from strom.storage.log import Appended, Log
from strom.storage.log_reader import LogReader
from strom.storage.producer_state import ProducerStates
from strom.storage.recovery import Recovery, RecoveryPoint
from strom.wire.kafka.batch import headers
from tests.history.planting import Plant, around, every, is_ours
from tests.history.workers import TOPIC

HELD_BACK_SECONDS = 0.3


def answer_before_writing() -> None:
    """A batch is acknowledged while it is still in memory only."""
    held: defaultdict[Partition, list[bytearray]] = defaultdict(list)

    @around(Partition, "is_durable")
    def is_durable(original, self, appended):
        return is_ours(self.log) or original(self, appended)

    @around(Partition, "append")
    def append(original, self, batches, now_ms, *, from_client=True, **more):
        if not is_ours(self.log) or not from_client:
            return original(self, batches, now_ms, from_client=from_client, **more)

        def write() -> None:
            for batch in held.pop(self):
                try:
                    original(self, batch, now_ms)
                except ApiError:
                    continue  # it was acknowledged long ago

        if not held[self]:
            asyncio.get_running_loop().call_later(HELD_BACK_SECONDS, write)
        base = self.log.end_offset + sum(map(records_in, held[self]))
        held[self].append(bytearray(batches))
        last = base + records_in(batches) - 1
        return Appended(base, last, -1, self.log.start_offset, False)


def records_in(batch) -> int:
    """How many offsets a batch takes."""
    return sum(header.next_offset - header.base_offset for _, header in headers(batch))


def answer_before_syncing() -> None:
    """A batch is acknowledged when it is written, and not when it is on disk."""

    @around(Partition, "is_durable")
    def is_durable(original, self, appended):
        return is_ours(self.log) or original(self, appended)


def show_before_syncing() -> None:
    """The high watermark jumps to the end of the log, so that readers see what may be gone again."""

    @around(Log, "append")
    def append(original, self, *args, **named):
        appended = original(self, *args, **named)
        if is_ours(self):
            self._state.high_watermark = self.end_offset
            self._state.watermark_position = self._segments.active.size_bytes
        return appended

    @around(Partition, "append")
    def append_and_wake(original, self, *args, **named):
        appended = original(self, *args, **named)
        self._wake_readers()
        return appended


def forget_sequences() -> None:
    """A batch that is sent again is not recognised."""

    @around(ProducerStates, "check")
    def check(original, self, header, marker=None, *, from_client=True):
        if marker is not None:
            return original(self, header, marker, from_client=from_client)
        return None


def append_twice() -> None:
    """Now and then a batch is written twice."""
    due = every(10)

    @around(Partition, "append")
    def append(original, self, batches, now_ms, *, from_client=True, **more):
        copy = bytearray(batches)
        appended = original(self, batches, now_ms, from_client=from_client, **more)
        if is_ours(self.log) and from_client and not appended.duplicate and due():
            producers = self.log._state.producers
            producers.check = lambda *_, **__: None
            original(self, copy, now_ms)
            del producers.check
        return appended


def tell_wrong_offsets() -> None:
    """Now and then the answer names another offset than the one where the batch lies."""
    due = every(10)

    @around(Partition, "append")
    def append(original, self, *args, **named):
        appended = original(self, *args, **named)
        if is_ours(self.log) and due():
            return appended._replace(base_offset=appended.base_offset + 1)
        return appended


def skip_batches() -> None:
    """Now and then a fetch begins one batch too late, where there is a later one."""
    due = every(2)

    @around(LogReader, "read_lazily")
    def read_lazily(original, self, offset, *args, **named):
        stable = self._state.last_stable_offset
        if self._guard._partition.topic == TOPIC and offset < stable:
            first = next(headers(self.read(offset, 1).data))[1]
            if first.next_offset < stable and due():
                offset = first.next_offset
        return original(self, offset, *args, **named)


def cut_last_batches() -> None:
    """At every start the log ends a few batches earlier than it did."""

    @around(Recovery, "open")
    def open_cut(original, self, *, clean, **named):
        folder = Path(self._folder)
        if folder.name.startswith(f"{TOPIC}-"):
            for path in folder.glob("*.log"):
                starts = [position for position, _ in headers(path.read_bytes())]
                if starts:
                    os.truncate(path, starts[-3:][0])
            self._point = RecoveryPoint()
            clean = False
        return original(self, clean=clean, **named)


BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        answer_before_writing,
        answer_before_syncing,
        show_before_syncing,
        forget_sequences,
        append_twice,
        tell_wrong_offsets,
        skip_batches,
        cut_last_batches,
    )
}
