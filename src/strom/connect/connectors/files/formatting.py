"""Formats records as lines: text, CSV or JSON."""

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from strom.connect.api import PoisonRecord, SinkRecord
from strom.connect.connectors.plain_json import to_json


class Formatter(ABC):
    """Converts records to the bytes of their lines."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding

    def lines(self, records: Sequence[SinkRecord]) -> bytes:
        """The records' lines; PoisonRecord for the first that cannot be formatted."""
        texts = []
        for index, record in enumerate(records):
            try:
                texts.append(self._text(record))
            except ValueError as error:
                raise PoisonRecord(str(error), index) from None
        return self._encoded(texts)

    @abstractmethod
    def _text(self, record: SinkRecord) -> str:
        """The line of a record, without its end; ValueError if it cannot be formatted."""

    def _encoded(self, texts: list[str]) -> bytes:
        try:
            return "".join([text + "\n" for text in texts]).encode(self._encoding)
        except UnicodeEncodeError:
            for index, text in enumerate(texts):
                try:
                    text.encode(self._encoding)
                except UnicodeEncodeError as error:
                    problem = f"The record cannot be encoded as {self._encoding}: {error}"
                    raise PoisonRecord(problem, index) from None
            raise


class TextFormatter(Formatter):
    """Strings as they are, everything else as JSON; null as Kafka's FileStreamSink writes it."""

    def _text(self, record: SinkRecord) -> str:
        value = record.value
        if isinstance(value, bytes):
            return value.decode(self._encoding)
        return value if isinstance(value, str) else to_json(value)


class JsonFormatter(Formatter):
    """Every value as one JSON document."""

    def _text(self, record: SinkRecord) -> str:
        return to_json(record.value)


class CsvFormatter(Formatter):
    """Structs and maps as rows; the columns are configured, or the fields of the first record."""

    def __init__(self, encoding: str, delimiter: str, columns: Sequence[str]) -> None:
        super().__init__(encoding)
        self._delimiter = delimiter
        self.columns = tuple(columns)

    def header(self, first: SinkRecord) -> bytes:
        """The header line with the columns' names."""
        self._choose_columns(first)
        return self._encoded([self._row(self.columns)])

    def read_header(self, line: bytes) -> None:
        """Take the columns from the header of an existing file."""
        text = line.decode(self._encoding).strip("\r\n")
        self.columns = tuple(next(csv.reader([text], delimiter=self._delimiter), ()))

    def _choose_columns(self, record: SinkRecord) -> None:
        if not self.columns and record.value_schema is not None:
            self.columns = tuple(field.name for field in record.value_schema.fields)
        elif not self.columns and isinstance(record.value, dict):
            self.columns = tuple(map(str, record.value))

    def _text(self, record: SinkRecord) -> str:
        if not isinstance(record.value, dict):
            raise ValueError(f"A CSV row needs a struct or a map, not {record.value!r:.80}")
        self._choose_columns(record)
        unknown = [name for name in record.value if name not in self.columns]
        if unknown:
            raise ValueError(
                f"The file has no column {', '.join(map(str, unknown))}; its columns are "
                f"{', '.join(self.columns)}"
            )
        return self._row([_cell(record.value.get(name)) for name in self.columns])

    def _row(self, cells: Sequence[str]) -> str:
        row = io.StringIO()
        csv.writer(row, delimiter=self._delimiter, lineterminator="").writerow(cells)
        return row.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value).strip('"')
