"""Regular expressions over topic names, in the syntax of RE2 and in time that cannot explode.

Kafka takes RE2/J for it, because Java's own engine (like Python's) can be kept busy for years by a short
pattern. Here a pattern becomes a set of states, and a name is read once, character by character; the sets
that were met are remembered, so that most names cost one look-up per character.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from strom.coordination.groups.consumer.pattern_syntax import (
    ALPHABET,
    WORD,
    Alternatives,
    Edge,
    Node,
    OneOf,
    Repeated,
    Sequence,
    parse,
)
from strom.model.errors import ApiError, ErrorCode

MAX_STATES = 10_000
"""Repetitions are written out: `(a{1000}){1000}` would be a million."""
MAX_WORK = 500_000
"""How many states may be looked at to match one pattern with all topics that there are."""


class _Reads(NamedTuple):
    """A state that goes on if the next character is one of these."""

    characters: frozenset[str]
    then: int


class _Splits(NamedTuple):
    """A state that goes on in several ways, without reading."""

    ways: tuple[int, ...]


class _Needs(NamedTuple):
    """A state that goes on only in some places of the name."""

    edge: Edge
    then: int


_State: TypeAlias = _Reads | _Splits | _Needs | None
"""None accepts."""

_START, _END, _OTHER = "start", "end", "."
_Met: TypeAlias = tuple[frozenset[int], str]
"""States that the name may be in, and a character that stands for the last one."""


class TopicPattern:
    """A compiled pattern; INVALID_REGULAR_EXPRESSION if it cannot be understood."""

    def __init__(self, text: str) -> None:
        try:
            self._states: list[_State] = [None]
            self._first = self._compile(parse(text), 0)
        except ValueError as error:
            raise _invalid(text, str(error)) from None
        self._text = text
        self._next: dict[tuple[_Met, str], _Met] = {}
        self._work = 0

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Those names that the whole pattern matches from end to end."""
        self._work = 0
        return frozenset(name for name in names if self._matches(name))

    def _matches(self, name: str) -> bool:
        met: _Met = (frozenset([self._first]), _START)
        for character in name:
            if character not in ALPHABET:
                return False
            following = self._next.get((met, character))
            if following is None:
                following = self._next[met, character] = self._read(met, character)
            met = following
            if not met[0]:
                return False
        return 0 in self._reachable(met, _END)

    def _read(self, met: _Met, character: str) -> _Met:
        following = set()
        for number in self._reachable(met, character):
            state = self._states[number]
            if isinstance(state, _Reads) and character in state.characters:
                following.add(state.then)
        return frozenset(following), character if character in WORD else _OTHER

    def _reachable(self, met: _Met, upcoming: str) -> set[int]:
        """Every state that can be reached without reading, given what comes next."""
        states, last = met
        reached: set[int] = set()
        pending = list(states)
        while pending:
            number = pending.pop()
            if number in reached:
                continue
            reached.add(number)
            state = self._states[number]
            if isinstance(state, _Splits):
                pending.extend(state.ways)
            elif isinstance(state, _Needs) and _is_at(state.edge, last, upcoming):
                pending.append(state.then)
        self._work += len(reached)
        if self._work > MAX_WORK:
            raise _invalid(self._text, "it takes too long to match it with the topics there are")
        return reached

    # --- compiling: each part is given the state that follows it, and returns its own first ------

    def _add(self, state: _State) -> int:
        if len(self._states) >= MAX_STATES:
            raise ValueError("expression is too large")
        self._states.append(state)
        return len(self._states) - 1

    def _compile(self, node: Node, then: int) -> int:
        match node:
            case OneOf():
                return self._add(_Reads(node.characters, then))
            case Edge():
                return self._add(_Needs(node, then))
            case Alternatives():
                return self._add(_Splits(tuple(self._compile(one, then) for one in node.parts)))
            case Sequence():
                for part in reversed(node.parts):
                    then = self._compile(part, then)
                return then
            case Repeated():
                return self._compile_repeated(node, then)

    def _compile_repeated(self, node: Repeated, then: int) -> int:
        if node.most is None:
            loop = self._add(None)
            self._states[loop] = _Splits((self._compile(node.part, loop), then))
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._add(_Splits((self._compile(node.part, then), end)))
        for _ in range(node.least):
            then = self._compile(node.part, then)
        return then


def _is_at(edge: Edge, last: str, upcoming: str) -> bool:
    match edge:
        case Edge.START:
            return last == _START
        case Edge.END:
            return upcoming == _END
    is_boundary = (last in WORD) != (upcoming in WORD)
    return is_boundary is (edge is Edge.WORD_BOUNDARY)


def _invalid(text: str, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}.",
    )
