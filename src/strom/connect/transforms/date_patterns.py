"""Date patterns of Java's SimpleDateFormat, always in UTC and English.

Supported: y M d D E u a H k K h m s S z Z X and 'quoted text'; other letters are rejected. Parsing is as
lenient as Java's: 32 January is 1 February, and text behind the pattern is ignored.
"""

import datetime as dt
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from strom.connect.logical_values import DAY_MS, UTC_EPOCH, millis_to_timestamp

_MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_NUMERIC: Final = frozenset("ydDuHkKhmsS")
_PIECES: Final = re.compile(r"'(?:[^']|'')*'|([a-zA-Z])\1*|[^a-zA-Z']+", re.DOTALL)
_OFFSET: Final = re.compile(r"(?:GMT|UTC)?([+-])(\d\d?):?(\d\d)?|GMT|UTC|Z")
_UNIX_YEAR: Final = 1970


class _Piece(NamedTuple):
    """A repeated letter, or literal text."""

    letter: str
    """Empty for literal text."""
    width: int
    text: str


class DatePattern:
    """A compiled pattern that formats and parses milliseconds since the epoch."""

    def __init__(self, pattern: str, *, today: dt.date | None = None) -> None:
        """ValueError describes an invalid pattern; `today` determines the century of `yy`."""
        self.pattern = pattern
        self._today = today
        self._pieces = _pieces(pattern)

    def format(self, millis: int) -> str:
        moment = millis_to_timestamp(millis)
        return "".join(
            _FORMATS[piece.letter](moment, piece.width) if piece.letter else piece.text
            for piece in self._pieces
        )

    def parse(self, text: str) -> int:
        """Parse a text; ValueError if it does not match the pattern."""
        found: dict[str, int] = {}
        position = 0
        for index, piece in enumerate(self._pieces):
            if not piece.letter:
                if not text.startswith(piece.text, position):
                    raise self._misfit(text)
                position += len(piece.text)
                continue
            following = self._pieces[index + 1] if index + 1 < len(self._pieces) else None
            position = self._read(text, position, piece, following, found)
        return _millis(found)

    def _read(
        self,
        text: str,
        position: int,
        piece: _Piece,
        following: _Piece | None,
        found: dict[str, int],
    ) -> int:
        position = _after_blanks(text, position)
        if _is_number(piece):
            # The pattern's counts are the only separators between adjacent numbers.
            width = piece.width if following is not None and _is_number(following) else None
            digits = re.compile(r"\d+" if width is None else rf"\d{{1,{width}}}").match(
                text, position
            )
            if digits is None:
                raise self._misfit(text)
            value = int(digits.group())
            if piece.letter == "y" and piece.width <= 2 and len(digits.group()) == 2:
                value = self._full_year(value)
            found[piece.letter] = value
            return digits.end()
        read = _read_zone if piece.letter in "zZX" else _read_name
        end = read(text, position, piece.letter, found)
        if end is None:
            raise self._misfit(text)
        return end

    def _full_year(self, two_digits: int) -> int:
        """The year between 80 years ago and 20 years ahead, as in Java."""
        today = self._today or dt.datetime.now(dt.UTC).date()
        year = (today.year - 80) // 100 * 100 + two_digits
        return year if year >= today.year - 80 else year + 100

    def _misfit(self, text: str) -> ValueError:
        return ValueError(f"{text!r} does not match the pattern {self.pattern}.")


def _pieces(pattern: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    position = 0
    while position < len(pattern):
        found = _PIECES.match(pattern, position)
        if found is None:
            raise ValueError(f"The quote at {position} of {pattern} is not closed.")
        text, letter = found.group(), found.group(1) or ""
        if text.startswith("'"):
            text = "'" if text == "''" else text[1:-1].replace("''", "'")
        elif letter and letter not in _FORMATS:
            raise ValueError(
                f"Unsupported letter {letter} in {pattern}; supported are "
                f"{' '.join(_FORMATS)}, and text in '…'."
            )
        pieces.append(_Piece(letter, len(text), text))
        position = found.end()
    return pieces


def _is_number(piece: _Piece) -> bool:
    return piece.letter in _NUMERIC or (piece.letter == "M" and piece.width <= 2)


def _after_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t":
        position += 1
    return position


def _read_name(text: str, position: int, letter: str, found: dict[str, int]) -> int | None:
    names = {"M": _MONTHS, "E": _DAYS, "a": ["AM", "PM"]}[letter]
    rest = text[position:].lower()
    for number, name in enumerate(names):
        for form in (name, name[:3]):
            if rest.startswith(form.lower()):
                found[letter] = number + 1 if letter == "M" else number
                return position + len(form)
    return None


def _read_zone(text: str, position: int, letter: str, found: dict[str, int]) -> int | None:
    zone = _OFFSET.match(text, position)
    if zone is None or (zone.group() == "Z" and letter != "X"):
        return None
    if zone.group(1):
        minutes = int(zone.group(2)) * 60 + int(zone.group(3) or 0)
        found["X"] = -minutes if zone.group(1) == "-" else minutes
    return zone.end()


def _millis(found: dict[str, int]) -> int:
    """Every number may exceed its range; the excess carries over."""
    months = found.get("y", _UNIX_YEAR) * 12 + found.get("M", 1) - 1
    try:
        month_start = dt.date(months // 12, months % 12 + 1, 1)
    except ValueError:
        raise ValueError("The year must be between 1 and 9999.") from None
    days = month_start.toordinal() - UTC_EPOCH.toordinal()
    if "D" in found and "d" not in found:
        days = month_start.replace(month=1).toordinal() - UTC_EPOCH.toordinal() + found["D"] - 1
    else:
        days += found.get("d", 1) - 1
    minutes = _hour(found) * 60 + found.get("m", 0) - found.get("X", 0)
    seconds = minutes * 60 + found.get("s", 0)
    return days * DAY_MS + seconds * 1000 + found.get("S", 0)


def _hour(found: dict[str, int]) -> int:
    if "H" in found:
        return found["H"]
    if "k" in found:
        return 0 if found["k"] == 24 else found["k"]
    hour = 0 if found.get("h") == 12 else found.get("h", found.get("K", 0))
    return hour + 12 * found.get("a", 0)


def _number(value: Callable[[dt.datetime], int]) -> Callable[[dt.datetime, int], str]:
    return lambda moment, count: str(value(moment)).zfill(count)


def _year(moment: dt.datetime, count: int) -> str:
    return f"{moment.year % 100:02}" if count == 2 else str(moment.year).zfill(count)


def _month(moment: dt.datetime, count: int) -> str:
    if count <= 2:
        return str(moment.month).zfill(count)
    name = _MONTHS[moment.month - 1]
    return name if count > 3 else name[:3]


def _weekday(moment: dt.datetime, count: int) -> str:
    name = _DAYS[moment.weekday()]
    return name if count > 3 else name[:3]


_FORMATS: Final[dict[str, Callable[[dt.datetime, int], str]]] = {
    "y": _year,
    "M": _month,
    "d": _number(lambda moment: moment.day),
    "D": _number(lambda moment: moment.timetuple().tm_yday),
    "E": _weekday,
    "u": _number(lambda moment: moment.isoweekday()),
    "a": lambda moment, _: "AM" if moment.hour < 12 else "PM",
    "H": _number(lambda moment: moment.hour),
    "k": _number(lambda moment: moment.hour or 24),
    "K": _number(lambda moment: moment.hour % 12),
    "h": _number(lambda moment: moment.hour % 12 or 12),
    "m": _number(lambda moment: moment.minute),
    "s": _number(lambda moment: moment.second),
    "S": _number(lambda moment: moment.microsecond // 1000),
    "z": lambda _, count: "UTC" if count <= 3 else "Coordinated Universal Time",
    "Z": lambda *_: "+0000",
    "X": lambda *_: "Z",
}
