"""Whether a new version of a schema may follow the earlier ones."""

from collections.abc import Sequence
from enum import StrEnum

from strom.registry.formats import Parsed


class Level(StrEnum):
    """Which data must stay readable, by whom; spelled as Confluent's interface spells it."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def looks_back(self) -> bool:
        """Whether the new schema must read the data of earlier ones."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def looks_forward(self) -> bool:
        """Whether earlier schemas must read the data of the new one."""
        return self.value.startswith(("FORWARD", "FULL"))

    @property
    def transitive(self) -> bool:
        """Whether all earlier versions count, and not the last alone."""
        return self.value.endswith("_TRANSITIVE")


def check(
    level: Level, new: Parsed, earlier: Sequence[Parsed], versions: Sequence[int] = ()
) -> list[str]:
    """Tell why `new` may not follow `earlier` (oldest first) under a level; nothing if it may.

    `versions` are the numbers of the earlier ones, for the messages; without them they are
    counted from 1.
    """
    numbers = versions or range(1, len(earlier) + 1)
    pairs = list(zip(numbers, earlier, strict=True))
    messages: list[str] = []
    for number, old in reversed(pairs if level.transitive else pairs[-1:]):
        if level.looks_back:
            messages += [
                f"The new schema cannot read data of version {number}: {problem}"
                for problem in new.problems_reading(old)
            ]
        if level.looks_forward:
            messages += [
                f"Version {number} cannot read data of the new schema: {problem}"
                for problem in old.problems_reading(new)
            ]
    return messages
