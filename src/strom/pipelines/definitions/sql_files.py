"""Files with CREATE STREAM and CREATE VIEW, in any order."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from strom.model.errors import UserError
from strom.pipelines.definitions.place import DefinitionError, Place
from strom.pipelines.definitions.sql import parse_select, source_name, stream_of, view_of
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.definitions.view import View

if TYPE_CHECKING:
    from sqlglot import exp

_STREAM = re.compile(
    r"CREATE\s+STREAM\s+(\w+)\s*(?:\((.*?)\))?\s*(?:WITH\s*\(([^()]*)\))?\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
# What a semicolon or a comment may stand in, and these themselves; of any two the first one counts.
_PIECE = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|;", re.DOTALL
)
_VIEW = re.compile(r"CREATE\s+VIEW\s+(\w+)\s+AS\s+(SELECT\b.*)\Z", re.IGNORECASE | re.DOTALL)


class _Pending(NamedTuple):
    tree: "exp.Select"
    place: Place


def read_sql(
    files: Sequence[tuple[str, str]], streams: Mapping[str, Stream], views: Mapping[str, View]
) -> tuple[dict[str, Stream], dict[str, View]]:
    """The streams and views of files, given as (path, text); they may name those that are there."""
    new_streams: dict[str, Stream] = {}
    pending: dict[str, _Pending] = {}
    for file, text in files:
        for statement, line in _statements(text):
            place = Place(file, line)
            if found := _STREAM.match(statement):
                if found[1] in new_streams:
                    raise DefinitionError(place, f"There are two streams of the name {found[1]!r}.")
                with _told_at(place):
                    new_streams[found[1]] = stream_of(found[1], found[2], found[3], place)
            elif found := _VIEW.match(statement):
                if found[1] in pending:
                    raise DefinitionError(place, f"There are two views of the name {found[1]!r}.")
                with _told_at(place):
                    pending[found[1]] = _Pending(parse_select(found[2], place), place)
            else:
                raise DefinitionError(
                    place, "Only CREATE STREAM and CREATE VIEW … AS SELECT are known here."
                )
    made = _Views(pending, {**streams, **views, **new_streams})
    return new_streams, {name: made.view(name) for name in pending}


class _Views:
    """Makes views after those that they read."""

    def __init__(
        self, pending: Mapping[str, _Pending], sources: Mapping[str, Stream | View]
    ) -> None:
        self._pending = pending
        self._sources = sources
        self._made: dict[str, View] = {}

    def view(self, name: str, above: tuple[str, ...] = ()) -> View:
        """A view by its name; `above` are those that wait for it."""
        if name in self._made:
            return self._made[name]
        tree, place = self._pending[name]
        path = (*above, name)
        if name in above:
            circle = " → ".join(path[path.index(name) :])
            raise DefinitionError(place, f"View {name} reads itself: {circle}.")
        wanted = source_name(tree)
        if wanted in self._pending:
            reads: Stream | View = self.view(wanted, path)
        elif wanted in self._sources:
            reads = self._sources[wanted]
        else:
            known = ", ".join({**self._sources, **self._pending}) or "none"
            raise DefinitionError(place, f"There is no stream {wanted!r}. There is: {known}.")
        with _told_at(place):
            self._made[name] = view_of(name, tree, reads, place)
        return self._made[name]


@contextlib.contextmanager
def _told_at(place: Place) -> Iterator[None]:
    """A mistake without a place gets this one."""
    try:
        yield
    except DefinitionError:
        raise
    except UserError as error:
        raise DefinitionError(place, str(error)) from None


def _statements(text: str) -> list[tuple[str, int]]:
    """The statements with the lines on which they begin, without comments."""
    bare = _PIECE.sub(_without_comment, text)
    ends = [one.start() for one in _PIECE.finditer(bare) if one[0] == ";"]
    found, start = [], 0
    for end in [*ends, len(bare)]:
        piece = bare[start:end]
        if piece.strip():
            before = start + len(piece) - len(piece.lstrip())
            found.append((piece.strip(), bare.count("\n", 0, before) + 1))
        start = end + 1
    return found


def _without_comment(piece: re.Match[str]) -> str:
    """A space in the place of a comment, and its line ends, so that lines keep their numbers."""
    return " " + "\n" * piece[0].count("\n") if piece[0].startswith(("--", "/*")) else piece[0]
