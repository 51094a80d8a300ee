"""Values as Java prints and parses them, which Kafka's converters and transforms rely on."""

import math
import re
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from strom.connect.api import PoisonRecord

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_POINT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def java_text(value: Any) -> str:
    """Java's string of a value: `true`, `1.0E10`, `{a=1}`, `[1, 2]`."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, Mapping):
        pairs = (f"{java_text(key)}={java_text(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return "[" + ", ".join(map(java_text, value)) + "]"
    return str(value)


def double_text(value: float) -> str:
    """A double as Java prints it: plain from 0.001 to 10⁷, scientific outside, always with a point."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = repr(value)
    if sum(map(str.isdigit, shortest.partition("e")[0].strip("0."))) == 1:
        shortest = f"{value:.1e}"  # Java prints at least two digits
    return _point_text(shortest, value)


def float_text(value: float) -> str:
    """A single-precision number as Java prints it: the shortest digits that give the same number."""
    if not math.isfinite(value) or value == 0:
        return double_text(value)
    single = struct.unpack(">f", struct.pack(">f", value))[0]
    for digits in range(1, 10):
        text = f"{single:.{digits}g}"
        if struct.pack(">f", float(text)) == struct.pack(">f", single):
            return _point_text(text, single)
    return _point_text(repr(single), single)


def _point_text(shortest: str, value: float) -> str:
    """`shortest` in Java's notation."""
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digit_tuple, exponent = Decimal(shortest).normalize().as_tuple()
    digits = "".join(map(str, digit_tuple))
    minus = "-" if sign else ""
    point = len(digits) + int(exponent)  # the position of the decimal point
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{digits}"
        whole = digits[:point].ljust(point, "0")
        return f"{minus}{whole}.{digits[point:] or '0'}"
    return f"{minus}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


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
