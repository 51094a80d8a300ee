"""Regular expressions over topic names. Kafka takes RE2/J for them, and strom RE2 (KIP-848)."""

from collections.abc import Iterable
from typing import Final

from strom.model.errors import ApiError, ErrorCode
from strom.model.patterns import compile_pattern

MAX_STEPS: Final = 200_000_000
"""Steps to match one pattern with all topics that there are, at worst.

RE2 takes two to three nanoseconds for each, so nothing else waits longer than half a second. Only
large patterns over many topics come near: one of 1,000 instructions over 10,000 names of 20 bytes.
"""


class TopicPattern:
    """A compiled pattern; INVALID_REGULAR_EXPRESSION if it is none."""

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            self._pattern = compile_pattern(text)
        except ValueError as error:
            raise self._invalid(str(error)) from None

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Those names that the pattern matches from end to end."""
        candidates = list(names)
        size = sum(map(len, candidates))
        if size * self._pattern.programsize > MAX_STEPS:
            raise self._invalid(
                f"its {self._pattern.programsize} instructions are too many to match "
                f"{len(candidates)} names; subscribe to the topics by their names"
            )
        return frozenset(name for name in candidates if self._pattern.fullmatch(name))

    def _invalid(self, reason: str) -> ApiError:
        return ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{self._text}` is not a valid regular expression: {reason}.",
        )
