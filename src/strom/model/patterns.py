"""Users' regular expressions, by RE2: matching takes time linear in the length of the text.

A backtracking engine, such as Python's or Java's, takes exponential time for some short patterns. The
price is that RE2 has no look-around and no backreferences.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import re2

MAX_MEMORY_BYTES: Final = 256 * 1024
"""The memory of one compiled pattern with its cached states: about 10,000 instructions.

The module re2 caches the 128 patterns used last, so that they take 32 MB at most.
"""


class PatternMatch(Protocol):
    """The part of `re.Match` that is used here."""

    def group(self, number: int, /) -> str | None:
        """The text that a group captured; 0 is the whole match."""


class UserPattern(Protocol):
    """The part of `re.Pattern` that is used here."""

    groups: int
    groupindex: Mapping[str, int]
    programsize: int
    """The number of instructions, which bounds the steps for each byte of the text."""

    def fullmatch(self, text: str, /) -> PatternMatch | None:
        """The match of the whole text."""

    def sub(self, repl: Callable[[PatternMatch], str], text: str, count: int = 0) -> str:
        """The text with the first `count` matches replaced."""


def compile_pattern(text: str) -> UserPattern:
    """Compile a pattern; ValueError with RE2's text if it is invalid."""
    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.log_errors = False
    try:
        pattern: UserPattern = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(
            reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        ) from None
    except UnicodeEncodeError:
        raise ValueError("it is not valid Unicode") from None
    return pattern
