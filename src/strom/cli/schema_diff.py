"""The differences between two schemas, by the names in them instead of by lines."""

import difflib
import json
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

Sign = Literal["+", "-", "~"]
_NOTHING = object()


class Difference(NamedTuple):
    """A path that was added, removed or changed."""

    sign: Sign
    path: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        match self.sign:
            case "+":
                return f"+ {self.path}  {_short(self.after)}".rstrip()
            case "-":
                return f"- {self.path}  {_short(self.before)}".rstrip()
            case "~":
                return f"~ {self.path}  {_short(self.before)} → {_short(self.after)}"


def differences(old: str, new: str, kind: str) -> list[Difference]:
    """The differences from one text to the other; by lines for Protobuf, which is not JSON."""
    if kind == "PROTOBUF":
        return list(_by_lines(old, new))
    return list(_by_names(json.loads(old), json.loads(new), ""))


def _by_names(old: Any, new: Any, path: str) -> Iterator[Difference]:
    left, right = _named_parts(old), _named_parts(new)
    if left is None or right is None or type(old) is not type(new):
        if old != new:
            yield Difference("~", path or "schema", old, new)
        return
    for name in [*left, *(name for name in right if name not in left)]:
        place = f"{path}.{name}" if path else name
        before, after = left.get(name, _NOTHING), right.get(name, _NOTHING)
        if before is _NOTHING:
            yield Difference("+", place, None, after)
        elif after is _NOTHING:
            yield Difference("-", place, before)
        else:
            yield from _by_names(before, after, place)


def _named_parts(value: Any) -> dict[str, Any] | None:
    """The parts of an object by key, of a list by the names of its items; None for anything else."""
    match value:
        case dict():
            return value
        case [*items] if items and all(isinstance(one, dict) and "name" in one for one in items):
            parts = {str(one["name"]): one for one in items}
            return parts if len(parts) == len(items) else None
    return None


def _by_lines(old: str, new: str) -> Iterator[Difference]:
    for line in difflib.ndiff(old.splitlines(), new.splitlines()):
        if line.startswith("+ "):
            yield Difference("+", line[2:].strip())
        elif line.startswith("- "):
            yield Difference("-", line[2:].strip())


def _short(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)
