"""The keys of a view: columns, and windows of event time."""

import re
from dataclasses import dataclass, field

from strom.model.errors import UserError
from strom.pipelines.definitions.place import DefinitionError, SourceLocation, calling_place

_UNITS = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_DURATION = re.compile(r"\s*(\d+)\s+([a-z]+?)s?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Window:
    """A window of event time. Sliding if `every_us` is shorter than `length_us`."""

    length_us: int
    every_us: int
    name: str = "window_start"
    place: SourceLocation | None = field(default=None, compare=False, repr=False)

    @property
    def overlaps(self) -> int:
        """The number of windows that contain each moment."""
        return self.length_us // self.every_us

    @property
    def end_name(self) -> str:
        """The name of the column with the window's end."""
        return f"{self.name.removesuffix('_start')}_end"


def window(length: str, every: str | None = None, *, name: str = "window_start") -> Window:
    """Tumbling windows, `window("1 minute")`; sliding ones, `window("1 hour", every="5 minutes")`.

    Windows start at multiples of their step since the epoch, in UTC. The result has the columns
    `window_start` and `window_end`.
    """
    place = calling_place()
    try:
        length_us = parse_duration(length)
        every_us = length_us if every is None else parse_duration(every)
    except UserError as error:
        raise DefinitionError(place, str(error)) from None
    if length_us % every_us:
        raise DefinitionError(
            place,
            f"A window of {length} cannot start every {every}: the step must divide the length.",
        )
    return Window(length_us, every_us, name, place)


def parse_duration(text: str) -> int:
    """The microseconds of a duration such as `5 minutes`."""
    found = _DURATION.fullmatch(text)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None or int(found[1]) == 0:
        raise UserError(f"{text!r} is not a duration. Examples: 10 seconds, 1 minute, 2 hours")
    return int(found[1]) * unit
