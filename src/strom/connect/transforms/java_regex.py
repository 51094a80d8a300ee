"""Translates Java's regular expressions to RE2's, and rejects what has no equivalent."""

import re
from collections.abc import Callable
from typing import Final

from strom.model.patterns import PatternMatch, UserPattern
from strom.model.patterns import compile_pattern as compile_re2

_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "XDigit": "0-9a-fA-F",
    "Space": r"\s",
}
_BACKTRACKING: Final = (
    "look-around, backreferences and possessive quantifiers are unsupported: with them a short "
    "pattern can take forever. To exclude names, set `negate` on a predicate"
)
_SPECIAL_GROUP: Final = re.compile(r"\(\?(?:[=!>]|<[=!])")
_FLAGS: Final = re.compile(r"\(\?[a-zA-Z-]*[xuUd]")
_POSSESSIVE: Final = re.compile(r"[*+?}]\+")


def compile_pattern(java: str) -> UserPattern:
    """The same expression for RE2; ValueError describes an unsupported one."""
    translated = "".join(_translate(java))
    try:
        return compile_re2(translated)
    except ValueError as error:
        raise ValueError(f"Invalid regular expression {java}: {error}.") from None


def _translate(java: str) -> list[str]:
    parts: list[str] = []
    position, in_class = 0, False
    while position < len(java):
        character = java[position]
        if character == "\\":
            part, position = _escape(java, position, in_class)
            parts.append(part)
            continue
        if in_class and (character == "[" or java.startswith("&&", position)):
            raise ValueError(f"{java}: nested character classes are not supported.")
        if not in_class and (
            _SPECIAL_GROUP.match(java, position) or _POSSESSIVE.match(java, position)
        ):
            raise ValueError(f"{java}: {_BACKTRACKING}.")
        if not in_class and _FLAGS.match(java, position):
            # RE2 reads some of these letters otherwise than Java does.
            raise ValueError(f"{java}: only the flags i, m and s are supported.")
        if character == "[":
            in_class = True
        elif character == "]":
            in_class = False
        parts.append(character)
        position += 1
    return parts


def _escape(java: str, position: int, in_class: bool) -> tuple[str, int]:
    following = java[position + 1 : position + 2]
    if following == "Q":
        end = java.find("\\E", position)
        end = len(java) if end < 0 else end
        return re.escape(java[position + 2 : end]), min(end + 2, len(java))
    if following in ("p", "P"):
        named = re.match(r"\{(\w+)\}", java[position + 2 :])
        inside = _POSIX.get(named.group(1)) if named else None
        if named is None or inside is None or (in_class and following == "P"):
            raise ValueError(f"{java}: \\{following} at {position} is not supported.")
        negated = "^" if following == "P" else ""
        text = inside if in_class else f"[{negated}{inside}]"
        return text, position + 2 + named.end()
    if following in set("k123456789"):
        raise ValueError(f"{java}: {_BACKTRACKING}.")
    if following == "Z":  # before a last line break, which no topic's name has
        return "\\z", position + 2
    if following == "u":
        return f"\\x{{{java[position + 2 : position + 6]}}}", position + 6
    return "\\" + following, position + 2


def compile_replacement(java: str, pattern: UserPattern) -> Callable[[PatternMatch], str]:
    """The replacement of a match: `$1`, `${name}`, and `\\` as the escape character."""
    parts: list[str | int] = []
    position = 0
    while position < len(java):
        if java[position] == "\\":
            if position + 1 == len(java):
                raise ValueError(f"{java} ends with a backslash.")
            parts.append(java[position + 1])
            position += 2
        elif java[position] == "$":
            group, position = _group(java, position, pattern)
            parts.append(group)
        else:
            parts.append(java[position])
            position += 1

    def replace(match: PatternMatch) -> str:
        return "".join(
            part if isinstance(part, str) else (match.group(part) or "") for part in parts
        )

    return replace


def _group(java: str, position: int, pattern: UserPattern) -> tuple[int, int]:
    named = re.match(r"\$\{(\w+)\}", java[position:])
    if named is not None:
        if named.group(1) not in pattern.groupindex:
            raise ValueError(f"{java}: unknown group {named.group(1)}.")
        return pattern.groupindex[named.group(1)], position + named.end()
    digits = re.match(r"\$([0-9]+)", java[position:])
    if digits is None:
        raise ValueError(f"{java}: $ must be followed by a group's number or {{name}}.")
    # As many digits as form a group's number: with fewer than 12 groups, $12 is group 1 and a 2.
    text = digits.group(1)
    while len(text) > 1 and int(text) > pattern.groups:
        text = text[:-1]
    if int(text) > pattern.groups:
        raise ValueError(f"{java}: unknown group {text}.")
    return int(text), position + 1 + len(text)
