"""Times and durations as Kafka's tools parse them."""

import re
from datetime import UTC, datetime

from strom.model.errors import UserError

_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)


def parse_datetime_ms(text: str) -> int:
    """`2026-11-15T08:00:00.000`, in UTC unless it has an offset, as milliseconds since 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{text!r} is no time, as 2026-11-15T08:00:00.000 is") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """A duration such as `P1DT2H30M5S` in milliseconds."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise UserError(f"{text!r} is no duration, as P1DT2H30M is")
    parts = zip(found.groups(), _UNITS_MS, strict=True)
    return round(sum(float(number) * unit for number, unit in parts if number))
