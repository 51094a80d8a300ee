"""What clients send cannot forge lines of the log, nor control a terminal."""

import logging
import subprocess
import sys

import pytest

from strom.supervision.log_lines import LINE_FORMAT, LogFormatter, escape_control_characters

FORGED = "q\n2026-01-01 00:00:00,000 WARNING all data was deleted"


def record(message: str, *values: object, error: Exception | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("strom", logging.WARNING, "x.py", 1, message, values, info)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain, süß, 東京, 🦉", "plain, süß, 東京, 🦉"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u2028\u202e\udc80", r"\u2028\u202e\udc80"),
    ],
)
def test_control_characters_are_escaped_and_nothing_else(text, escaped):
    assert escape_control_characters(text) == escaped


def test_a_name_with_a_newline_stays_in_its_line():
    line = LogFormatter(LINE_FORMAT).format(record("Queue %s is full", FORGED))
    assert "\n" not in line
    assert r"Queue q\n2026-01-01" in line


def test_the_text_of_an_exception_cannot_be_taken_for_a_line():
    try:
        raise ValueError(FORGED + "\x1b[2J")
    except ValueError as error:
        text = LogFormatter(LINE_FORMAT).format(
            record("Serving %s failed", "a client", error=error)
        )
    first, *others = text.split("\n")
    assert first.endswith("Serving a client failed")
    assert len(others) > 2
    assert all(line.startswith("    ") for line in others)
    assert "\x1b" not in text
    assert LogFormatter().formatStack("a\nb") == "    a\n    b"


def test_programs_without_log_settings_escape_their_warnings_too():
    code = (
        "import logging; from strom.supervision.log_lines import escape_unconfigured_logs;"
        "escape_unconfigured_logs(); logging.getLogger('x').warning('a%sb', chr(10))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == "a\\nb\n"
