"""Where to start and end reading: the syntax of `strom consume --offset`.

start  end  47  +10  -10      the start, the end, an offset, 10 after the start, 10 before the end
47:100  :end  -100:end        from one point up to, but not including, another
@2026-11-15  @1700000000000   from a time on: a date (UTC), RFC 3339, or milliseconds (or seconds)
@-1h  @-48h:-24h  @-1h:end    from an hour ago on; between two times
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"-(\d+)(ms|s|m|h|d)")
_DATE = r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?)?"
_TIME_POINT = re.compile(rf"{_DATE}|-\d+(?:ms|s|m|h|d)|\d+|start|end")
_SECONDS_DIGITS = 10
EXAMPLES = "start, end, 47, +10, -10, 47:100, :end, @-1h, @2026-11-15T08:00:00Z, @-48h:-24h"


class Anchor(Enum):
    """What a point counts from."""

    START = "start"
    END = "end"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True)
class Point:
    """A point in a partition: offsets after the start or before the end, an offset, or a time."""

    anchor: Anchor
    number: int = 0


START = Point(Anchor.START)
END = Point(Anchor.END)
_WORDS = {
    "start": START,
    "earliest": START,
    "beginning": START,
    "end": END,
    "latest": END,
}


@dataclass(frozen=True)
class OffsetRange:
    """Where to start and end reading; without an end, reading never stops."""

    begin: Point
    end: Point | None = None

    @property
    def times(self) -> tuple[int, ...]:
        """The times, in milliseconds, whose offsets are to be requested from the broker."""
        points = (self.begin, self.end)
        return tuple(p.number for p in points if p is not None and p.anchor is Anchor.TIME)


@dataclass(frozen=True)
class PartitionOffsets:
    """The offsets that the broker reports for one partition."""

    earliest: int
    latest: int
    by_time: dict[int, int]
    """The first offset at or after each time; -1 if there is none."""

    def resolve(self, wanted: OffsetRange) -> tuple[int, int | None]:
        """The start and end offsets of a range; the start is limited to the partition's bounds."""
        begin = min(max(self._offset(wanted.begin), self.earliest), self.latest)
        end = None if wanted.end is None else self._offset(wanted.end)
        return begin, end

    def _offset(self, point: Point) -> int:
        match point.anchor:
            case Anchor.START:
                return self.earliest + point.number
            case Anchor.END:
                return self.latest - point.number
            case Anchor.OFFSET:
                return point.number
            case Anchor.TIME:
                found = self.by_time[point.number]
                return self.latest if found < 0 else found


def parse_offset_range(text: str, now_ms: int) -> OffsetRange:
    """Parse an offset range; ValueError, with examples, for an invalid one."""
    wanted = _time_range(text[1:], now_ms) if text.startswith("@") else _offset_range(text)
    if wanted is None:
        raise ValueError(f"{text!r} is not an offset. Examples: {EXAMPLES}")
    return wanted


def _offset_range(text: str) -> OffsetRange | None:
    first, colon, second = text.partition(":")
    begin = _offset_point(first) if first else START if colon else None
    end = _offset_point(second) if second else None
    if begin is None or (second and end is None) or text == ":":
        return None
    return OffsetRange(begin, end)


def _offset_point(text: str) -> Point | None:
    if text in _WORDS:
        return _WORDS[text]
    match = re.fullmatch(r"([+-]?)(\d+)", text)
    if match is None:
        return None
    anchor = {"+": Anchor.START, "-": Anchor.END, "": Anchor.OFFSET}[match[1]]
    return Point(anchor, int(match[2]))


def _time_range(text: str, now_ms: int) -> OffsetRange | None:
    # Times may contain colons, so the first one is matched as a whole.
    first = _TIME_POINT.match(text)
    if first is None:
        return None
    rest = text[first.end() :]
    begin = _time_point(first[0], now_ms)
    if not rest:
        return OffsetRange(begin) if begin else None
    second = _TIME_POINT.fullmatch(rest[1:].removeprefix("@")) if rest[0] == ":" else None
    end = _time_point(second[0], now_ms) if second else None
    return OffsetRange(begin, end) if begin and end else None


def _time_point(text: str, now_ms: int) -> Point | None:
    if text in _WORDS:
        return _WORDS[text]
    ago = _AGO.fullmatch(text)
    if ago:
        return Point(Anchor.TIME, now_ms - int(ago[1]) * _UNIT_MS[ago[2]])
    if text.isdigit():
        return Point(Anchor.TIME, int(text) * (1000 if len(text) <= _SECONDS_DIGITS else 1))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Point(Anchor.TIME, round(moment.timestamp() * 1000))
