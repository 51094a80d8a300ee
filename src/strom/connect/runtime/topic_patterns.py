r"""Translates `topics.regex` from Java's syntax to POSIX's, which librdkafka uses: it has no `\d`."""

import re

from strom.model.patterns import compile_pattern

_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": " \t\n\r\f\v"}


def posix_pattern(regex: str) -> str:
    """The subscription for topics whose whole name matches; ValueError if it cannot be translated."""
    try:
        compile_pattern(regex)
    except ValueError as error:
        raise ValueError(f"it is not a regular expression: {error}.") from None
    return f"^({''.join(_translated(regex))})$"


def _translated(regex: str) -> list[str]:
    parts: list[str] = []
    index, in_set = 0, False
    while index < len(regex):
        letter, following = regex[index], regex[index + 1 : index + 2]
        step = 1
        if letter == "\\":
            step = 2
            parts.append(_escape(following, in_set=in_set))
        elif in_set:
            in_set = letter != "]"
            parts.append(letter)
        elif letter == "[":
            in_set = True
            # A closing bracket right after the opening one is a member of the set.
            begin = re.match(r"\[\^?\]?", regex[index:])
            parts.append(begin[0] if begin else letter)
            step = len(parts[-1])
        elif letter == "(" and following == "?":
            if not regex.startswith("(?:", index):
                raise ValueError(f"{regex[index : index + 3]}…) is not supported.")
            parts.append("(")
            step = 3
        elif letter in "*+?}" and following and following in "+?":
            raise ValueError(f"{letter}{following} is not supported: use a greedy quantifier.")
        else:
            parts.append(letter)
        index += step
    return parts


def _escape(letter: str, *, in_set: bool) -> str:
    if letter.lower() in _CLASSES:
        inner = _CLASSES[letter.lower()]
        if letter.islower():
            return inner if in_set else f"[{inner}]"
        if in_set:
            raise ValueError(f"\\{letter} within brackets is not supported.")
        return f"[^{inner}]"
    if letter.isalnum():
        raise ValueError(f"\\{letter} is not supported.")
    if in_set:
        # In POSIX brackets a backslash is literal. Topic names contain neither ] nor ^.
        return {"-": "[.-.]", "]": "", "^": ""}.get(letter, letter)
    return f"\\{letter}"
