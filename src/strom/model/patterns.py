"""Users' regular expressions, by RE2: matching takes time in proportion to the text.

An engine that backtracks, such as Python's or Java's, can be kept busy for years by a short pattern.
The price is that RE2 has no look-around and no backreferences.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import re2

MAX_MEMORY_BYTES: Final = 256 * 1024
"""For one compiled pattern and the states met while matching: about 10,000 instructions.

The module re2 keeps the 128 patterns that were used last, so they take 32 MB at most.
"""


class PatternMatch(Protocol):
    """What `re.Match` is for `re`, as far as it is used here."""

    def group(self, number: int, /) -> str | None:
        """What a group captured; 0 is the whole match."""


class UserPattern(Protocol):
    """What `re.Pattern` is for `re`, as far as it is used here."""

    groups: int
    groupindex: Mapping[str, int]
    programsize: int
    """Instructions: matching takes at most so many steps for each byte of the text."""

    def fullmatch(self, text: str, /) -> PatternMatch | None:
        """The match of the whole text."""

    def sub(self, repl: Callable[[PatternMatch], str], text: str, count: int = 0) -> str:
        """The text with the first `count` matches replaced."""


def compile_pattern(text: str) -> UserPattern:
    """The compiled pattern; ValueError says why there is none, in RE2's words."""
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
