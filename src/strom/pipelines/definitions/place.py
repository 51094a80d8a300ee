"""Where in the user's files a definition stands, so that every message can say it."""

import sys
from dataclasses import dataclass
from pathlib import Path

from strom.model.errors import UserError

_OWN_CODE = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{_short(self.file)}:{self.line}"


class DefinitionError(UserError):
    """A definition that cannot be; the text begins with its place."""

    def __init__(self, place: Place | None, text: str) -> None:
        super().__init__(f"{place}: {text}" if place else text)
        self.place = place


def calling_place() -> Place | None:
    """The nearest line outside of strom's own code that led here."""
    frame = sys._getframe(1)  # the traceback module would read source files; this only looks
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OWN_CODE, "<")) and "dataclasses" not in file:
            return Place(file, frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def raised_at(error: Exception, definition: Place | None) -> Place | None:
    """The innermost line of the definition's own file that an error passed through."""
    found, trace = definition, error.__traceback__
    while trace is not None and definition is not None:
        if trace.tb_frame.f_code.co_filename == definition.file:
            found = Place(definition.file, trace.tb_lineno)
        trace = trace.tb_next
    return found


def own_code(file: str) -> bool:
    """Whether a file is part of strom."""
    return file.startswith(_OWN_CODE)


def _short(file: str) -> str:
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
