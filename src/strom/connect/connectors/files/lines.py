"""Cutting bytes into lines, block by block, knowing where in the file each line ends."""

from itertools import accumulate
from typing import NamedTuple


class Lines(NamedTuple):
    """Lines without their ends; None stands for one that is too long."""

    texts: list[bytes | None]
    ends: list[int]
    """The position right after each line, its newline included."""


NO_LINES = Lines([], [])


class LineSplitter:
    """Takes a file's blocks in order, gives its whole lines; the last, unfinished one waits."""

    def __init__(self, position: int, longest: int) -> None:
        self.position = position
        """Where the unfinished line begins."""
        self._longest = longest
        self._rest = b""
        self._skipped = 0  # bytes already dropped of a line that is too long

    @property
    def given(self) -> int:
        """Up to where everything was given out: to begin anew there loses and repeats nothing."""
        return self.position

    @property
    def fed(self) -> int:
        """Where the next block must begin."""
        return self.position + self._skipped + len(self._rest)

    def feed(self, block: bytes) -> Lines:
        """The lines that this block completes."""
        pieces = (self._rest + block if self._rest else block).split(b"\n")
        self._rest = pieces.pop()
        lines = self._measured(pieces) if pieces else NO_LINES
        if len(self._rest) > self._longest:
            self._skipped += len(self._rest)
            self._rest = b""
        return lines

    def last(self) -> Lines:
        """The unfinished line, because nothing will follow it."""
        if not self._rest and not self._skipped:
            return NO_LINES
        text = None if self._skipped else self._rest
        end = self.fed
        self._restart(end)
        return Lines([text], [end])

    def _measured(self, pieces: list[bytes]) -> Lines:
        start = self.position + self._skipped
        lengths = [len(piece) + 1 for piece in pieces]
        ends = list(accumulate(lengths, initial=start))[1:]
        texts: list[bytes | None] = list(pieces)
        if self._skipped or max(lengths) - 1 > self._longest:
            texts = [None if len(piece) > self._longest else piece for piece in pieces]
            texts[0] = None if self._skipped else texts[0]
        rest = self._rest
        self._restart(ends[-1])
        self._rest = rest
        return Lines(texts, ends)

    def _restart(self, position: int) -> None:
        self.position = position
        self._rest = b""
        self._skipped = 0


class CsvSplitter(LineSplitter):
    """Gives whole records of CSV: a quoted field may hold newlines, so one may span lines."""

    def __init__(self, position: int, longest: int) -> None:
        super().__init__(position, longest)
        self._open: list[bytes] = []  # lines of a record whose last quote is not closed yet
        self._open_size = 0
        self._given = position

    @property
    def given(self) -> int:
        """Up to where everything was given out; an open record is not."""
        return self._given if self._open else self.position

    def feed(self, block: bytes) -> Lines:
        """The records that this block completes."""
        return self._joined(super().feed(block))

    def last(self) -> Lines:
        """What is left, because nothing will follow it."""
        lines = self._joined(super().last())
        if self._open:
            text, self._open, self._open_size = b"\n".join(self._open), [], 0
            return Lines([*lines.texts, text], [*lines.ends, self.position])
        return lines

    def _joined(self, lines: Lines) -> Lines:
        if not self._open and not any(text and b'"' in text for text in lines.texts):
            self._given = self.position
            return lines
        joined = Lines([], [])
        for text, end in zip(lines.texts, lines.ends, strict=True):
            self._take(text, end, joined)
        return joined

    def _take(self, text: bytes | None, end: int, joined: Lines) -> None:
        too_long = text is None or self._open_size + len(text) > self._longest
        if text is not None and not too_long:
            # Quotes come in pairs, escaped ones too: an odd number means that a field is open.
            odd = text.count(b'"') % 2 == 1
            if bool(self._open) != odd:
                self._open.append(text)
                self._open_size += len(text)
                return
        whole = None if text is None or too_long else b"\n".join([*self._open, text])
        self._open, self._open_size = [], 0
        joined.texts.append(whole)
        joined.ends.append(end)
        self._given = end
