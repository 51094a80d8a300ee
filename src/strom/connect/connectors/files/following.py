"""Reading a file to its end and beyond, wherever rotation moves it."""

import logging
from collections.abc import Callable

from strom.connect.connectors.files.generations import (
    Generation,
    Generations,
    Mark,
    head_digest,
)
from strom.connect.connectors.files.lines import NO_LINES, Lines, LineSplitter

BLOCK_BYTES = 1024 * 1024
_log = logging.getLogger(__name__)


class FollowedFile:
    """The lines of all generations of one path, from a mark on, each once and in order."""

    def __init__(
        self,
        generations: Generations,
        mark: Mark | None,
        splitter: Callable[[int], LineSplitter],
        begin: Callable[[Generation], int | None] = lambda generation: 0,
    ) -> None:
        """`begin` says where a generation's lines start, after a header; None: not known yet."""
        self._all = generations
        self._mark = mark
        self._make_splitter = splitter
        self._begin = begin
        self._generation: Generation | None = None
        self._splitter: LineSplitter | None = None
        self._said_missing = False
        self._at_its_end = False
        self._resting: tuple[int, int, int] | None = None

    @property
    def is_resting(self) -> bool:
        """Whether the file is not held open, because there was nothing more to read."""
        return self._resting is not None

    @property
    def inode(self) -> int | None:
        """Of the generation that is being read."""
        return self._generation.inode if self._generation else None

    @property
    def head(self) -> str | None:
        """The digest of the first bytes of the generation that is being read."""
        return head_digest(self._generation.head) if self._generation else None

    def next_lines(self) -> Lines:
        """The lines of the next block; none if there are none at present."""
        if self._resting is not None and self._resting == self._look():
            return NO_LINES
        if self._generation is None and not self._find():
            return NO_LINES
        splitter = self._opened_splitter()
        if splitter is None or self._generation is None:
            return NO_LINES
        block = self._generation.read(splitter.fed, BLOCK_BYTES)
        self._at_its_end = not block
        # A file that was cut and written anew shows it in its head: the block may then be of the
        # new text, so the head is looked at after the block was read.
        if not self._generation.note_head():
            return self._cut(splitter)
        return splitter.feed(block) if block else self._at_end(self._generation, splitter)

    def rest(self) -> None:
        """Hold the file open no longer, if its end was reached; it is opened again when it changes."""
        current, splitter = self._generation, self._splitter
        look = self._look()
        if current is None or splitter is None or look is None or look[0] != current.inode:
            return
        if self._at_its_end and (current.compressed or look[1] == splitter.fed):
            self._mark = Mark(splitter.given, current.inode, head_digest(current.head))
            self._resting = look
            self._generation = self._splitter = None
            current.close()

    def _look(self) -> tuple[int, int, int] | None:
        """What tells whether there is anything new at the path: inode, length, time."""
        try:
            status = self._all.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def close(self) -> None:
        """Let go of the file."""
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
                    "%s is not the file that was read to position %d, and that one is not beside it: "
                    "whatever followed there is lost, and this one is read from its beginning",
                    self._all.path,
                    self._mark.position,
                )
                self._switch(anew, 0)
        if self._generation is None and not self._said_missing:
            self._said_missing = True
            _log.warning("%s cannot be read or does not exist: waiting for it", self._all.path)
        return self._generation is not None

    def _switch(self, generation: Generation | None, position: int) -> None:
        if generation is None:
            return
        if self._generation is not None:
            self._generation.close()
        self._generation = generation
        self._mark = Mark(position)
        self._splitter = None
        self._said_missing = False
        self._resting = None

    def _opened_splitter(self) -> LineSplitter | None:
        if self._splitter is None and self._generation and self._mark:
            start = self._begin(self._generation)
            if start is not None:
                self._generation.note_head()
                self._splitter = self._make_splitter(max(start, self._mark.position))
        return self._splitter

    def _cut(self, splitter: LineSplitter) -> Lines:
        """The file was cut to nothing while it was read: its text may be in a copy beside it."""
        old = self._generation
        if old is None:
            return NO_LINES
        mark = Mark(splitter.given, None, head_digest(old.head))
        copied = self._all.marked(mark)
        if copied is not None and copied.inode != old.inode:
            self._switch(copied, splitter.given)
            return NO_LINES
        if copied is not None:
            copied.close()
        lines = splitter.last()
        if not lines.texts:  # otherwise they come first: they belong to the old one's offsets
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
            return self._cut(splitter) if current.size < splitter.fed else NO_LINES
        follower = self._all.after(current) if there is not None else None
        if follower is None:
            return NO_LINES
        # Its last writer may have been quick: what it wrote before it went on to the follower.
        block = current.read(splitter.fed, BLOCK_BYTES)
        if block:
            follower.close()
            return splitter.feed(block)
        lines = splitter.last()
        if lines.texts:
            follower.close()
            return lines
        self._switch(follower, 0)
        return NO_LINES
