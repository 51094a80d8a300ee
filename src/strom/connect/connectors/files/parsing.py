"""Parses lines: text, CSV or JSON."""

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from strom.connect.api import Schema
from strom.connect.api.schema import OPTIONAL_STRING, STRING, struct
from strom.model.settings import INT_MAX

# `max.line.bytes` limits lines; the csv module's limit on fields is lower than that.
csv.field_size_limit(INT_MAX)

_NOT_CLOSED = "unexpected end of data"


class Malformed(Exception):
    """A line that cannot be parsed; the message has the reason."""


class Parser(ABC):
    """Converts lines to values."""

    schema: Schema | None = None
    """The schema of the values; None for schemaless values."""
    skips_empty_lines = True

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding

    @abstractmethod
    def value(self, line: bytes) -> Any:
        """The value of a line; raises Malformed."""

    def values(self, lines: Sequence[bytes]) -> list[Any]:
        """The values of many lines, quickly; any error if one of them is malformed."""
        return [self.value(line) for line in lines]

    def text(self, line: bytes) -> str:
        """The decoded line; raises Malformed."""
        try:
            return line.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise Malformed(f"it is not {self.encoding}: {error}") from None


class TextParser(Parser):
    """Each line is a string."""

    schema = STRING
    skips_empty_lines = False

    def value(self, line: bytes) -> str:
        return self.text(line)

    def values(self, lines: Sequence[bytes]) -> list[Any]:
        encoding = self.encoding
        return [line.decode(encoding) for line in lines]


class JsonParser(Parser):
    """Each line is a JSON value."""

    def value(self, line: bytes) -> Any:
        """The value, which has no schema."""
        try:
            return json.loads(self.text(line))
        except (ValueError, RecursionError) as error:
            raise Malformed(f"it is not JSON: {error}") from None


class CsvParser(Parser):
    """Each record is a struct of strings, by column."""

    def __init__(
        self, encoding: str, delimiter: str, columns: Sequence[str], null: str | None
    ) -> None:
        super().__init__(encoding)
        self._delimiter = delimiter
        self._null = null
        self._columns: tuple[str, ...] = ()
        if columns:
            self.name_columns(columns)

    def name_columns(self, columns: Sequence[str]) -> None:
        """Set the columns' names; ValueError if they are empty or not unique."""
        if len(set(columns)) != len(columns) or not all(columns):
            raise ValueError(f"column names must be unique and not empty: {', '.join(columns)}")
        if tuple(columns) != self._columns:
            self._columns = tuple(columns)
            self.schema = struct(dict.fromkeys(columns, OPTIONAL_STRING))

    def row(self, line: bytes) -> list[str]:
        """The fields of a record; raises Malformed."""
        text = self.text(line)
        try:
            rows = list(csv.reader([text], delimiter=self._delimiter, strict=True))
        except csv.Error as error:
            reason = "a quoted field is not closed" if str(error) == _NOT_CLOSED else error
            raise Malformed(f"it is not CSV: {reason}") from None
        return rows[0] if rows else []

    def is_row(self, line: bytes, columns: int) -> bool:
        """Whether a line is a complete row of the file with at least this many columns."""
        if len(self._columns) < columns:
            return False
        try:
            return len(self.row(line.removesuffix(b"\r"))) == len(self._columns)
        except Malformed:
            return False

    def value(self, line: bytes) -> dict[str, str | None]:
        return self._named(self.row(line))

    def values(self, lines: Sequence[bytes]) -> list[Any]:
        texts = [line.decode(self.encoding) for line in lines]
        rows = list(csv.reader(texts, delimiter=self._delimiter, strict=True))
        if len(rows) != len(lines):
            raise Malformed("a row does not end where its line does")
        return [self._named(row) for row in rows]

    def _named(self, row: list[str]) -> dict[str, str | None]:
        if len(row) != len(self._columns):
            raise Malformed(
                f"it has {len(row)} fields instead of {len(self._columns)} columns: "
                f"{', '.join(self._columns)}"
            )
        named: dict[str, str | None] = dict(zip(self._columns, row, strict=True))
        if self._null is not None:
            null = self._null
            named = {name: None if text == null else text for name, text in named.items()}
        return named
