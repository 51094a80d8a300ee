"""Translates Java's regular expressions to Python's, and rejects what has no equivalent."""

import re
from collections.abc import Callable

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "XDigit": "0-9a-fA-F",
    "Space": r"\s",
}


def compile_pattern(java: str) -> re.Pattern[str]:
    """The same expression in Python; ValueError describes an unsupported one."""
    translated = "".join(_translate(java))
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError) as error:
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
        if character == "[":
            in_class = True
        elif character == "]":
            in_class = False
        named = not in_class and re.match(r"\(\?<[a-zA-Z]", java[position:])
        parts.append("(?P<" if named else character)
        position += 3 if named else 1
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
    if following == "z":
        return "\\Z", position + 2
    if following == "k":
        return re.sub(r"\\k<(\w+)>", r"(?P=\1)", java[position:].partition(">")[0] + ">"), (
            java.index(">", position) + 1
        )
    return "\\" + following, position + 2


def compile_replacement(java: str, pattern: re.Pattern[str]) -> Callable[[re.Match[str]], str]:
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

    def replace(match: re.Match[str]) -> str:
        return "".join(
            part if isinstance(part, str) else (match.group(part) or "") for part in parts
        )

    return replace


def _group(java: str, position: int, pattern: re.Pattern[str]) -> tuple[int, int]:
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
