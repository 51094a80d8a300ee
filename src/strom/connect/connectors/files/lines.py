"""Splits blocks of bytes into lines, with the position of each line's end."""

import re
from collections.abc import Callable
from enum import Enum, auto
from functools import cache
from itertools import accumulate
from typing import NamedTuple


class Lines(NamedTuple):
    """Lines without their ends; None represents a line that exceeds the limit."""

    texts: list[bytes | None]
    ends: list[int]
    """The position right after each line, its newline included."""


NO_LINES = Lines([], [])


class LineSplitter:
    """Takes a file's blocks in order and returns complete lines; the unfinished last one is kept."""

    def __init__(self, position: int, longest: int) -> None:
        self.position = position
        """Where the unfinished line starts."""
        self._longest = longest
        self._rest = b""
        self._skipped = 0  # bytes dropped of a line that exceeds the limit

    @property
    def given(self) -> int:
        """The position up to which everything was returned.

        Restarting there loses and repeats nothing.
        """
        return self.position

    @property
    def fed(self) -> int:
        """Where the next block must start."""
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
        """The unfinished line, when nothing will follow it."""
        if not self._rest and not self._skipped:
            return NO_LINES
        text = None if self._skipped else self._rest
        end = self.fed
        self._restart(end)
        return Lines([text], [end])

    def give_up(self) -> Lines:
        """The lines that were held back, when the file has not grown for a while."""
        return NO_LINES

    @property
    def may_give_up(self) -> bool:
        """Whether `give_up` would return lines."""
        return False

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


class _End(Enum):
    """How a CSV line ends."""

    CLOSED = auto()
    OPEN = auto()
    """Within a quoted field, which continues on the next line."""
    MALFORMED = auto()
    """There is text between a closing quote and the next delimiter."""


@cache
def _closed_line(delimiter: bytes) -> re.Pattern[bytes]:
    """Matches CSV lines in which every quoted field is closed."""
    mark = re.escape(delimiter)
    field = rb'(?:"[^"]*+(?:""[^"]*+)*+"|(?!")(?:(?!%b).)*+)' % mark
    if len(delimiter) == 1:
        field = rb'(?:"[^"]*+(?:""[^"]*+)*+"|(?!")[^%b]*+)' % mark
    return re.compile(rb"%b(?:%b%b)*+\r?" % (field, mark, field), re.DOTALL)


class CsvSplitter(LineSplitter):
    """Returns complete CSV records: a quoted field may contain newlines, so a record may span lines.

    A quote that is never closed would hold back everything behind it. It is detected when the lines
    exceed the limit on a record, when a later quote cannot close it, or when nothing follows. If most
    of the lines that it holds back are rows by themselves, they are returned as such, and the line with
    the quote alone; else all of them as one. The part with the open quote is malformed.
    """

    def __init__(
        self,
        position: int,
        longest: int,
        delimiter: bytes = b",",
        is_row: Callable[[bytes, int], bool] = lambda line, columns: False,
    ) -> None:
        """`is_row` checks that a line is a row of the file with at least this many columns."""
        super().__init__(position, longest)
        self._delimiter = delimiter
        self._closed = _closed_line(delimiter)
        self._is_row = is_row
        self._open: list[tuple[bytes, int]] = []  # the lines of an open record, and their ends
        self._open_size = 0
        self._given = position
        self._judged: tuple[int, bool] | None = None

    @property
    def given(self) -> int:
        """The position up to which everything was returned; an open record was not."""
        return self._given if self._open else self.position

    def feed(self, block: bytes) -> Lines:
        """The records that this block completes."""
        return self._joined(super().feed(block))

    def last(self) -> Lines:
        """The remaining lines, when nothing will follow."""
        lines = self._joined(super().last())
        self._reject(lines)
        return lines

    @property
    def may_give_up(self) -> bool:
        """Whether an open record is probably a mistake: the lines behind it, to the last one, are rows.

        With a single column every line could be a row, so this cannot be decided.
        """
        if not self._open or self._rest:
            return False
        if self._judged is None or self._judged[0] != self.fed:
            self._judged = self.fed, self._is_mistake(columns=2)
        return self._judged[1]

    def give_up(self) -> Lines:
        """The lines of a mistakenly open record; none if it may still be completed."""
        lines = Lines([], [])
        if self.may_give_up:
            self._reject(lines)
        return lines

    def _joined(self, lines: Lines) -> Lines:
        if not self._open and not any(text and b'"' in text for text in lines.texts):
            self._given = self.position
            return lines
        joined = Lines([], [])
        is_closed = self._closed.fullmatch
        for text, end in zip(lines.texts, lines.ends, strict=True):
            if text is not None and not self._open and is_closed(text):  # most are
                self._give(text, end, joined)
            else:
                self._take(text, end, joined)
        return joined

    def _take(self, text: bytes | None, end: int, joined: Lines) -> None:
        if text is None or self._open_size + len(text) > self._longest:
            self._reject(joined)
        if text is None:
            self._give(None, end, joined)
            return
        state = self._end_of(text, within=bool(self._open))
        if state is _End.MALFORMED and self._open:
            self._reject(joined)
            state = self._end_of(text, within=False)
        if state is _End.OPEN:
            self._open.append((text, end))
            self._open_size += len(text)
            return
        whole = b"\n".join([*(line for line, _ in self._open), text]) if self._open else text
        self._open, self._open_size = [], 0
        self._give(whole, end, joined)

    def _give(self, text: bytes | None, end: int, joined: Lines) -> None:
        joined.texts.append(text)
        joined.ends.append(end)
        self._given = end

    def _reject(self, joined: Lines) -> None:
        """Return the lines of an open, malformed record, one by one or as one."""
        if not self._open:
            return
        rejected = self._open
        if not self._is_mistake(columns=1):
            rejected = [(b"\n".join(line for line, _ in rejected), rejected[-1][1])]
        self._open, self._open_size = [], 0
        # Each by itself, even if it opens a quote: joining them again would take quadratic time.
        for text, end in rejected:
            self._give(text, end, joined)

    def _is_mistake(self, *, columns: int) -> bool:
        """Whether most lines of the open record after its first, and the last one, are rows."""
        following = [line for line, _ in self._open[1:]]
        if not following or not self._is_row(following[-1], columns):
            return False
        rows = sum(self._is_row(line, columns) for line in following)
        return rows * 2 > len(following)

    def _end_of(self, text: bytes, *, within: bool) -> _End:
        """How a line ends that starts within a quoted field, or at a record."""
        delimiter, opening = self._delimiter, self._delimiter + b'"'
        place = 0
        if not within:
            if b'"' not in text:
                return _End.CLOSED
            if text.startswith(b'"'):
                within, place = True, 1
        while True:
            if not within:  # a quote opens a field only at its beginning
                place = text.find(opening, place)
                if place < 0:
                    return _End.CLOSED
                place += len(opening)
            place = text.find(b'"', place) + 1
            if not place:
                return _End.OPEN
            if text.startswith(b'"', place):  # a doubled quote is an escaped one
                within, place = True, place + 1
            elif text.startswith(delimiter, place):
                within = False
            else:
                return _End.CLOSED if text[place:] in {b"", b"\r"} else _End.MALFORMED
