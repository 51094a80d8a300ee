"""Parses files with CREATE STREAM and CREATE VIEW statements, in any order."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from strom.model.errors import UserError
from strom.pipelines.definitions.place import DefinitionError, SourceLocation
from strom.pipelines.definitions.sql import parse_select, source_name, stream_of, view_of
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.definitions.view import View

if TYPE_CHECKING:
    from sqlglot import exp

_STREAM = re.compile(
    r"CREATE\s+STREAM\s+(\w+)\s*(?:\((.*?)\))?\s*(?:WITH\s*\(([^()]*)\))?\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
# Strings and comments, in which a semicolon has no meaning; the one that starts first wins.
_PIECE = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|;", re.DOTALL
)
_VIEW = re.compile(r"CREATE\s+VIEW\s+(\w+)\s+AS\s+(SELECT\b.*)\Z", re.IGNORECASE | re.DOTALL)


class _Pending(NamedTuple):
    tree: "exp.Select"
    place: SourceLocation


def read_sql(
    files: Sequence[tuple[str, str]], streams: Mapping[str, Stream], views: Mapping[str, View]
) -> tuple[dict[str, Stream], dict[str, View]]:
    """The streams and views of files, given as (path, text); they may refer to existing ones."""
    new_streams: dict[str, Stream] = {}
    pending: dict[str, _Pending] = {}
    for file, text in files:
        for statement, line in _statements(text):
            place = SourceLocation(file, line)
            if found := _STREAM.match(statement):
                if found[1] in new_streams:
                    raise DefinitionError(place, f"The stream {found[1]!r} is defined twice.")
                with _located_at(place):
                    new_streams[found[1]] = stream_of(found[1], found[2], found[3], place)
            elif found := _VIEW.match(statement):
                if found[1] in pending:
                    raise DefinitionError(place, f"The view {found[1]!r} is defined twice.")
                with _located_at(place):
                    pending[found[1]] = _Pending(parse_select(found[2], place), place)
            else:
                raise DefinitionError(
                    place, "Unsupported statement: use CREATE STREAM or CREATE VIEW … AS SELECT."
                )
    made = _Views(pending, {**streams, **views, **new_streams})
    return new_streams, {name: made.view(name) for name in pending}


class _Views:
    """Builds views in dependency order."""

    def __init__(
        self, pending: Mapping[str, _Pending], sources: Mapping[str, Stream | View]
    ) -> None:
        self._pending = pending
        self._sources = sources
        self._made: dict[str, View] = {}

    def view(self, name: str, above: tuple[str, ...] = ()) -> View:
        """A view by its name; `above` are the views that depend on it."""
        if name in self._made:
            return self._made[name]
        tree, place = self._pending[name]
        path = (*above, name)
        if name in above:
            circle = " → ".join(path[path.index(name) :])
            raise DefinitionError(place, f"View {name} is circular: {circle}.")
        wanted = source_name(tree)
        if wanted in self._pending:
            reads: Stream | View = self.view(wanted, path)
        elif wanted in self._sources:
            reads = self._sources[wanted]
        else:
            known = ", ".join({**self._sources, **self._pending}) or "none"
            raise DefinitionError(place, f"Unknown stream or view {wanted!r}. Known: {known}.")
        with _located_at(place):
            self._made[name] = view_of(name, tree, reads, place)
        return self._made[name]


@contextlib.contextmanager
def _located_at(place: SourceLocation) -> Iterator[None]:
    """Add this location to errors without one."""
    try:
        yield
    except DefinitionError:
        raise
    except UserError as error:
        raise DefinitionError(place, str(error)) from None


def _statements(text: str) -> list[tuple[str, int]]:
    """The statements with the lines on which they start, without comments."""
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
    """A space instead of a comment, and its line ends, so that line numbers stay the same."""
    return " " + "\n" * piece[0].count("\n") if piece[0].startswith(("--", "/*")) else piece[0]
