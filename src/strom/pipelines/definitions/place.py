"""The location of a definition in the user's files, for messages."""

import sys
from dataclasses import dataclass
from pathlib import Path

from strom.model.errors import UserError

_OWN_CODE = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True)
class SourceLocation:
    """A line of a user's file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{_short(self.file)}:{self.line}"


Place = SourceLocation
"""The name until 0.1.1: pickled functions of stored definitions may refer to it."""


class DefinitionError(UserError):
    """An invalid definition; the message starts with its location."""

    def __init__(self, place: SourceLocation | None, text: str) -> None:
        super().__init__(f"{place}: {text}" if place else text)
        self.place = place


def calling_place() -> SourceLocation | None:
    """The nearest line outside strom's code in the call stack."""
    frame = sys._getframe(1)  # the traceback module would read source files
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OWN_CODE, "<")) and "dataclasses" not in file:
            return SourceLocation(file, frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def raised_at(error: Exception, definition: SourceLocation | None) -> SourceLocation | None:
    """The innermost line of the definition's file in an error's traceback."""
    found, trace = definition, error.__traceback__
    while trace is not None and definition is not None:
        if trace.tb_frame.f_code.co_filename == definition.file:
            found = SourceLocation(definition.file, trace.tb_lineno)
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
