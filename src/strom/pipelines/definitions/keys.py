"""What the rows of a view are grouped by: columns, and windows of event time."""

from dataclasses import dataclass, field

from strom.model.errors import UserError
from strom.model.settings import parse_duration
from strom.pipelines.definitions.place import DefinitionError, Place, calling_place


@dataclass(frozen=True)
class Window:
    """A span of event time. Sliding if `every_us` is shorter than `length_us`."""

    length_us: int
    every_us: int
    name: str = "window_start"
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def overlaps(self) -> int:
        """In how many windows each moment lies."""
        return self.length_us // self.every_us

    @property
    def end_name(self) -> str:
        """The column with the window's end."""
        return f"{self.name.removesuffix('_start')}_end"


def window(length: str, every: str | None = None, *, name: str = "window_start") -> Window:
    """Tumbling windows, `window("1 minute")`; sliding ones, `window("1 hour", every="5 minutes")`.

    Windows begin at multiples of their step since 1970, in UTC. The result has the columns
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
            f"A window of {length} cannot begin every {every}: the one must divide the other.",
        )
    return Window(length_us, every_us, name, place)
