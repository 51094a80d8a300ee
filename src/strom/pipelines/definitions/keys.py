"""The keys of a view: columns, and windows of event time."""

from dataclasses import dataclass, field

from strom.model.errors import UserError
from strom.model.settings import parse_duration
from strom.pipelines.definitions.place import DefinitionError, SourceLocation, calling_place


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
