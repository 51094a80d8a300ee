"""Wall-clock times in columns without a time zone (`timestamp without time zone`).

When clocks are set back, an hour of wall-clock times occurs twice; when they are set forward, one is
skipped. Such times are interpreted as by PostgreSQL (`AT TIME ZONE`) and Java's calendars.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_LONGEST_SETBACK_S: Final = 24 * 60 * 60


class UnknownZone(ValueError):
    """The time zone database has no zone of this name."""


def find_zone(name: str) -> tzinfo:
    """The zone of a name such as Europe/Berlin; UnknownZone if there is none."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownZone(name) from None


def from_wall_clock(time: datetime, zone: tzinfo) -> datetime:
    """The instant, in UTC, at which clocks of the zone showed this time.

    For an ambiguous time the second instant; a skipped time counts from before the change. Both use the
    smaller offset.
    """
    if zone is UTC:
        return time.replace(tzinfo=UTC)
    offset = min(
        time.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta(0) for fold in (0, 1)
    )
    return (time - offset).replace(tzinfo=UTC)


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """The instant in this zone; in UTC if that is outside Python's range."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment.astimezone(UTC)


def to_wall_clock(moment: datetime, zone: tzinfo) -> datetime:
    """The wall-clock time of the zone at this instant."""
    return in_zone(moment, zone).replace(tzinfo=None, fold=0)


def settled_wall_clock(moment: datetime, zone: tzinfo) -> datetime:
    """The earliest wall-clock time that the zone shows from this instant on.

    It is the current one, except in the hour before clocks are set back: then it is the time that they
    are set back to.
    """
    shown = to_wall_clock(moment, zone)
    low = int(moment.timestamp())
    high = low + _LONGEST_SETBACK_S
    offset = _offset(low, zone)
    if _offset(high, zone) >= offset:
        return shown
    while high - low > 1:  # offsets change at whole seconds
        middle = (low + high) // 2
        if _offset(middle, zone) < offset:
            high = middle
        else:
            low = middle
    return min(shown, to_wall_clock(datetime.fromtimestamp(high, UTC), zone))


def _offset(seconds: int, zone: tzinfo) -> timedelta:
    return datetime.fromtimestamp(seconds, zone).utcoffset() or timedelta(0)
