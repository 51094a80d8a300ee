"""What must be known of a .proto text before the compiler gets it, found in linear time.

The text is untrusted. All repetitions below are possessive (`++`, `*+`), and unterminated comments and
strings match too: they end with the text, the line or a NUL character, as they do for the compiler. So no
pattern backtracks, and nothing that the compiler reads escapes the limits on nesting.
"""

import re
from collections.abc import Iterator

COMMENT = r"//[^\n\0]*+|/\*.*?(?:\*/|\0|\Z)"
STRING = r""""(?:[^"\\\n\0]++|\\[^\n\0]?+)*+"?+|'(?:[^'\\\n\0]++|\\[^\n\0]?+)*+'?+"""

_COMMENT_OR_STRING = re.compile(rf"{COMMENT}|(?P<string>{STRING})", re.DOTALL)
_ANY_STRING = re.compile(STRING)
_SYNTAX = re.compile(rf"(?:\s++|{COMMENT})*+(?:syntax|edition)\b", re.DOTALL)
_IMPORT = re.compile(rf"{STRING}|\bimport\s*+(?:(?:public|weak)\b\s*+)?+(?P<path>{STRING})")
_BRACKET = re.compile(r"[{}<>\[\]]")
_NAME = re.compile(r"[\w()]++(?:\s*+\.\s*+[\w()]++)*+(?:\s*+\.)?+")


def declares_syntax(text: str) -> bool:
    """Whether the file starts with `syntax` or `edition`."""
    return _SYNTAX.match(text) is not None


def imported_paths(text: str) -> Iterator[str]:
    for found in _IMPORT.finditer(_without_comments(text)):
        path = (found["path"] or "")[1:-1]
        if path:
            yield path


def code_of(text: str) -> str:
    """The text with each comment and string replaced by a space."""
    return _ANY_STRING.sub(" ", _without_comments(text))


def deepest_nesting(code: str) -> int:
    """The depth of the nesting of all kinds of brackets."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(code):
        if bracket in "{<[":
            depth += 1
            deepest = max(deepest, depth)
        elif depth:
            depth -= 1
    return deepest


def max_dots_in_name(code: str) -> int:
    """The largest number of dots in one name, such as 2 in `(a.b).c`."""
    return max((found[0].count(".") for found in _NAME.finditer(code)), default=0)


def _without_comments(text: str) -> str:
    return _COMMENT_OR_STRING.sub(lambda found: found["string"] or " ", text)
