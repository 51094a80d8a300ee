r"""`topics.regex` as Java has it, for librdkafka, whose patterns are POSIX's: it knows no `\d`."""

import re

from strom.model.patterns import compile_pattern

_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": " \t\n\r\f\v"}


def posix_pattern(regex: str) -> str:
    """The pattern to subscribe to: topics whose whole name fits. ValueError if there is none."""
    try:
        compile_pattern(regex)
    except ValueError as error:
        raise ValueError(f"it is no regular expression: {error}.") from None
    return f"^({''.join(_translated(regex))})$"


def _translated(regex: str) -> list[str]:
    parts: list[str] = []
    place, in_set = 0, False
    while place < len(regex):
        letter, following = regex[place], regex[place + 1 : place + 2]
        step = 1
        if letter == "\\":
            step = 2
            parts.append(_escape(following, in_set=in_set))
        elif in_set:
            in_set = letter != "]"
            parts.append(letter)
        elif letter == "[":
            in_set = True
            # A bracket right behind the opening one is a member of the set.
            begin = re.match(r"\[\^?\]?", regex[place:])
            parts.append(begin[0] if begin else letter)
            step = len(parts[-1])
        elif letter == "(" and following == "?":
            if not regex.startswith("(?:", place):
                raise ValueError(f"{regex[place : place + 3]}…) is not to be had here.")
            parts.append("(")
            step = 3
        elif letter in "*+?}" and following and following in "+?":
            raise ValueError(f"{letter}{following} is not to be had here, nor needed for names.")
        else:
            parts.append(letter)
        place += step
    return parts


def _escape(letter: str, *, in_set: bool) -> str:
    if letter.lower() in _CLASSES:
        inner = _CLASSES[letter.lower()]
        if letter.islower():
            return inner if in_set else f"[{inner}]"
        if in_set:
            raise ValueError(f"\\{letter} within brackets is not to be had here.")
        return f"[^{inner}]"
    if letter.isalnum():
        raise ValueError(f"\\{letter} is not to be had here.")
    if in_set:
        # POSIX takes a backslash within brackets for itself. Topics' names have neither ] nor ^.
        return {"-": "[.-.]", "]": "", "^": ""}.get(letter, letter)
    return f"\\{letter}"
