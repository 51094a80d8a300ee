"""Reads a file to its end and follows it through rotations."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from strom.connect.connectors.files.generations import (
    Generation,
    Generations,
    Mark,
    Tail,
    head_digest,
)
from strom.connect.connectors.files.lines import NO_LINES, Lines, LineSplitter

BLOCK_BYTES = 1024 * 1024
MOST_COUNTED_BYTES = 256 * BLOCK_BYTES
"""The limit on bytes that are read to find the number of a malformed line."""
_log = logging.getLogger(__name__)


class FollowedFile:
    """The lines of all generations of one path, starting at a mark, each once and in order."""

    def __init__(
        self,
        generations: Generations,
        mark: Mark | None,
        splitter: Callable[[int], LineSplitter],
        begin: Callable[[Generation], int | None] = lambda generation: 0,
        patience_s: float = 0.0,
    ) -> None:
        """`begin` returns where a generation's lines start, after a header; None: not known yet.

        A file that has not grown for `patience_s` counts as complete, if its splitter holds lines back.
        """
        self._all = generations
        self._all.rotates = generations.rotates or (mark is not None and mark.rotates)
        self._mark = mark
        self._make_splitter = splitter
        self._begin = begin
        self._generation: Generation | None = None
        self._splitter: LineSplitter | None = None
        self._tail = Tail(0, b"")
        self._patience_s = patience_s
        self._grown_at = time.monotonic()
        self._counted = (0, 0)  # the position up to which lines were counted, and their number
        self._said_missing = False
        self._at_its_end = False
        self._resting: tuple[int, int, int] | None = None

    @property
    def is_resting(self) -> bool:
        """Whether the file is closed because its end was reached."""
        return self._resting is not None

    @property
    def mark(self) -> Mark | None:
        """The position in the current generation; None if nothing was ever read."""
        if self._generation is None or self._splitter is None:
            return self._mark and replace(self._mark, rotates=self._all.rotates)
        return Mark(
            self._splitter.given,
            self._generation.inode,
            head_digest(self._generation.head),
            self._tail.digest(),
            self._all.rotates,
        )

    @property
    def is_finished(self) -> bool:
        """Whether the current generation was read to its end and is no longer at the path."""
        if self._generation is None:
            return self._said_missing
        look = self._look()
        return self._at_its_end and (look is None or look[0] != self._generation.inode)

    def next_lines(self) -> Lines:
        """The lines of the next block; empty if there are none at present."""
        if self._resting is not None and self._resting == self._look():
            return NO_LINES
        if self._generation is None and not self._find():
            return NO_LINES
        splitter = self._opened_splitter()
        if splitter is None or self._generation is None:
            return NO_LINES
        block = self._generation.read(splitter.fed, BLOCK_BYTES)
        self._at_its_end = not block
        # The head or tail reveals a file that was truncated and rewritten. The block may then belong to
        # the new content, so they are checked after the block was read.
        if not self._generation.note_head() or not self._has_tail(self._generation):
            return self._cut(splitter)
        if block:
            self._grown_at = time.monotonic()
            return self._fed(splitter, block)
        return self._at_end(self._generation, splitter)

    def line_number(self, end: int) -> int | None:
        """The number of the line that ends at a position; None if counting would take too long."""
        counted, number = self._counted if self._counted[0] <= end else (0, 0)
        if self._generation is None or self._generation.compressed:
            return None
        if end - counted > MOST_COUNTED_BYTES:
            return None
        while counted < end:
            block = self._generation.read(counted, min(BLOCK_BYTES, end - counted))
            if not block:
                return None
            counted += len(block)
            number += block.count(b"\n")
        self._counted = counted, number
        return number + (self._generation.read(end - 1, 1) != b"\n")

    def rest(self) -> None:
        """Close the file if its end was reached; it is opened again when it changes."""
        current, splitter = self._generation, self._splitter
        look = self._look()
        if current is None or splitter is None or look is None or look[0] != current.inode:
            return
        if splitter.may_give_up:
            return  # its splitter holds lines back until the timeout
        if self._at_its_end and (current.compressed or look[1] == splitter.fed):
            self._mark = self.mark
            self._resting = look
            self._generation = self._splitter = None
            current.close()

    def _look(self) -> tuple[int, int, int] | None:
        """Inode, length and modification time, which reveal changes at the path."""
        try:
            status = self._all.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def close(self) -> None:
        if self._generation is not None:
            self._generation.close()

    def _find(self) -> bool:
        if self._mark is None:
            self._switch(self._all.newest(), 0)
        else:
            found = self._all.marked(self._mark)
            if found is not None:
                self._switch(found, self._mark.position)
            elif (anew := self._all.newest()) is not None:
                _log.warning(
                    "%s is not the file that was read to position %d, which is not beside it either: "
                    "its remaining lines are lost, and the new file is read from its beginning",
                    self._all.path,
                    self._mark.position,
                )
                self._switch(anew, 0)
        if self._generation is None and not self._said_missing:
            self._said_missing = True
            _log.warning("%s does not exist or is not readable: waiting for it", self._all.path)
        return self._generation is not None

    def _switch(self, generation: Generation | None, position: int) -> None:
        if generation is None:
            return
        if self._generation is not None:
            self._generation.close()
        self._generation = generation
        self._mark = Mark(position, generation.inode)
        self._splitter = None
        self._counted = (0, 0)
        self._said_missing = False
        self._resting = None

    def _opened_splitter(self) -> LineSplitter | None:
        if self._splitter is None and self._generation and self._mark:
            start = self._begin(self._generation)
            if start is not None:
                self._generation.note_head()
                position = max(start, self._mark.position)
                self._tail = self._generation.tail_before(position)
                self._splitter = self._make_splitter(position)
        return self._splitter

    def _has_tail(self, generation: Generation) -> bool:
        # A compressed file does not change, and seeking backwards decompresses it again.
        return generation.compressed or self._tail.is_in(generation)

    def _fed(self, splitter: LineSplitter, block: bytes) -> Lines:
        lines = splitter.feed(block)
        self._tail.feed(block, splitter.given)
        return lines

    def _cut(self, splitter: LineSplitter) -> Lines:
        """The file was truncated while it was read: its content may be in a copy beside it."""
        old = self._generation
        if old is None:
            return NO_LINES
        mark = Mark(splitter.given, None, head_digest(old.head), self._tail.digest())
        copied = self._all.marked(mark)
        if copied is not None and copied.inode != old.inode:
            self._switch(copied, splitter.given)
            return NO_LINES
        if copied is not None:
            copied.close()
        lines = splitter.last()
        if not lines.texts:  # otherwise they are returned first: they belong to the old offsets
            self._switch(self._all.newest(), 0)
        return lines

    def _at_end(self, current: Generation, splitter: LineSplitter) -> Lines:
        try:
            there: int | None = self._all.path.stat().st_ino
        except OSError:
            there = None
        if there == current.inode:
            if current.compressed:
                return splitter.last() if current.whole else NO_LINES
            if current.size < splitter.fed:
                return self._cut(splitter)
            return self._waited(splitter)
        mark = self.mark
        follower = self._all.after(current, mark) if there is not None and mark else None
        if follower is None:
            return NO_LINES
        # The writer may have appended to the old file before it switched to the new one.
        block = current.read(splitter.fed, BLOCK_BYTES)
        if block:
            follower.close()
            return self._fed(splitter, block)
        lines = splitter.last()
        if lines.texts:
            follower.close()
            return lines
        self._switch(follower, 0)
        return NO_LINES

    def _waited(self, splitter: LineSplitter) -> Lines:
        """The lines held back, once the file has not grown for long enough."""
        if time.monotonic() - self._grown_at < self._patience_s:
            return NO_LINES
        lines = splitter.give_up()
        self._tail.feed(b"", splitter.given)
        return lines
