"""Compatibility levels, and whether a new version of a schema is compatible with the earlier ones."""

from collections.abc import Sequence
from enum import StrEnum

from strom.registry.formats import ParsedSchema


class CompatibilityLevel(StrEnum):
    """Which data must stay readable, and by which schemas; the names are Confluent's."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_backward(self) -> bool:
        """Whether the new schema must read the data of earlier versions."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Whether earlier versions must read the data of the new schema."""
        return self.value.startswith(("FORWARD", "FULL"))

    @property
    def is_transitive(self) -> bool:
        """Whether all earlier versions are checked, not only the latest."""
        return self.value.endswith("_TRANSITIVE")


def check(
    level: CompatibilityLevel,
    new: ParsedSchema,
    earlier: Sequence[ParsedSchema],
    versions: Sequence[int] = (),
) -> list[str]:
    """Why `new` is incompatible with `earlier` (oldest first) at a level; empty if it is not.

    `versions` are the version numbers of `earlier`, for the messages; by default they count from 1.
    """
    numbers = versions or range(1, len(earlier) + 1)
    pairs = list(zip(numbers, earlier, strict=True))
    messages: list[str] = []
    for number, old in reversed(pairs if level.is_transitive else pairs[-1:]):
        if level.is_backward:
            messages += [
                f"The new schema cannot read data of version {number}: {problem}"
                for problem in new.problems_reading(old)
            ]
        if level.is_forward:
            messages += [
                f"Version {number} cannot read data of the new schema: {problem}"
                for problem in old.problems_reading(new)
            ]
    return messages
