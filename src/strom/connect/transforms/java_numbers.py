"""Java's conversions between numbers and strings, which Cast follows."""

import math
import re
from decimal import Decimal
from typing import Final

from strom.connect.api import PoisonRecord

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_POINT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def wrapped(number: int, bits: int) -> int:
    """The lowest `bits` of a number, as a signed integer."""
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


def whole_of(value: float | Decimal, bits: int) -> int:
    """The integer part of a number, in `bits` bits.

    Doubles saturate at the largest int or long; integers lose their upper bits.
    """
    if not isinstance(value, float):
        return wrapped(int(value), bits)
    if math.isnan(value):
        return 0
    limit = 1 << (63 if bits == 64 else 31)
    clamped = limit - 1 if value >= limit else -limit if value < -limit else int(value)
    return wrapped(clamped, bits)


def parse_whole(text: str, bits: int) -> int:
    """Parse an integer; PoisonRecord if the text is not one, or exceeds the range."""
    if _WHOLE.fullmatch(text):
        number = int(text)
        if wrapped(number, bits) == number:
            return number
    raise PoisonRecord(f"{text!r} is not an integer of {bits} bits.")


def parse_point(text: str) -> float:
    """Parse a floating-point number in Java's syntax."""
    trimmed = text.strip()
    sign = -1.0 if trimmed.startswith("-") else 1.0
    unsigned = trimmed.lstrip("+-")
    if len(trimmed) - len(unsigned) <= 1 and unsigned in ("NaN", "Infinity"):
        return math.nan if unsigned == "NaN" else math.copysign(math.inf, sign)
    digits = trimmed[:-1] if trimmed[-1:] in "fFdD" else trimmed
    if not _POINT.fullmatch(digits):
        raise PoisonRecord(f"{text!r} is not a number.")
    return float(digits)
