"""Log lines that no client can forge: names and texts of clients are part of many messages.

Control characters, escape sequences of terminals and line separators are escaped in one place, the
formatter, for all messages alike. The lines of a traceback are indented, because the text of an
exception may contain a name, too.
"""

import logging
import textwrap
from types import TracebackType
from typing import TypeAlias

LINE_FORMAT = "%(asctime)s %(levelname)s %(message)s"
LINE_FORMAT_WITH_THREAD = "%(asctime)s %(levelname)s %(threadName)s %(message)s"
_INDENT = "    "

ExceptionInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


def escape_control_characters(text: str) -> str:
    """The text with everything that is not printable as an escape sequence of Python."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


class LogFormatter(logging.Formatter):
    """One line per message, and tracebacks that cannot be taken for messages."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return escape_control_characters(super().formatMessage(record))

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indented(super().formatStack(stack_info))


def _indented(lines: str) -> str:
    escaped = "\n".join(map(escape_control_characters, lines.split("\n")))
    return textwrap.indent(escaped, _INDENT, lambda _: True)


def log_to_stderr(level: int, line_format: str) -> None:
    """Write the log of this process to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(line_format))
    logging.basicConfig(level=level, handlers=[handler])


def escape_unconfigured_logs() -> None:
    """Have warnings of a program without log settings escaped as well."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LogFormatter())
