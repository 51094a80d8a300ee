"""Wall-clock times of a database whose columns do not say their zone (`timestamp without time zone`).

When clocks are set back, an hour of wall-clock times comes twice; when they are set forward, one
never comes. Such times are read as PostgreSQL (`AT TIME ZONE`) and Java's calendars do.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_LONGEST_SETBACK_S: Final = 24 * 60 * 60


class UnknownZone(ValueError):
    """A name that the time zone database does not have."""


def find_zone(name: str) -> tzinfo:
    """The zone of a name such as Europe/Berlin; UnknownZone if there is none."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownZone(name) from None


def from_wall_clock(time: datetime, zone: tzinfo) -> datetime:
    """The moment, in UTC, at which clocks of the zone showed this time.

    Of a time that came twice the second moment; a time that never came counts on from before the
    change. Both have the smaller offset.
    """
    if zone is UTC:
        return time.replace(tzinfo=UTC)
    offset = min(
        time.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta(0) for fold in (0, 1)
    )
    return (time - offset).replace(tzinfo=UTC)


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """The moment in this zone; in UTC if that is beyond Python's calendar."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment.astimezone(UTC)


def to_wall_clock(moment: datetime, zone: tzinfo) -> datetime:
    """What clocks of the zone show at this moment."""
    return in_zone(moment, zone).replace(tzinfo=None, fold=0)


def settled_wall_clock(moment: datetime, zone: tzinfo) -> datetime:
    """The time before which clocks of the zone show no time any more, from this moment on.

    It is what they show, except in the hour before clocks are set back: then it is the time to which
    they are going to be set back.
    """
    shown = to_wall_clock(moment, zone)
    low = int(moment.timestamp())
    high = low + _LONGEST_SETBACK_S
    offset = _offset(low, zone)
    if _offset(high, zone) >= offset:
        return shown
    while high - low > 1:  # clocks are changed at whole seconds
        middle = (low + high) // 2
        if _offset(middle, zone) < offset:
            high = middle
        else:
            low = middle
    return min(shown, to_wall_clock(datetime.fromtimestamp(high, UTC), zone))


def _offset(seconds: int, zone: tzinfo) -> timedelta:
    return datetime.fromtimestamp(seconds, zone).utcoffset() or timedelta(0)
