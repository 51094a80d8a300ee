"""FileStreamSource: reads the lines of growing files.

It supports Kafka's settings and stores its source partitions and positions, so that a connector can be
migrated with its offsets; beyond them: patterns, rotation, CSV and JSON lines, gzip.
"""

import codecs
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from strom.connect.api import (
    ConnectError,
    ConnectorSettings,
    Importance,
    PoisonRecord,
    SourceConnector,
    SourceContext,
    SourceRecord,
    SourceTask,
)
from strom.connect.api.schema import OPTIONAL_STRING
from strom.connect.connectors.files.following import FollowedFile
from strom.connect.connectors.files.generations import Generation, Generations, Mark
from strom.connect.connectors.files.lines import CsvSplitter, LineSplitter
from strom.connect.connectors.files.matching import (
    MatchingReaders,
    literal_path,
    matching_files,
)
from strom.connect.connectors.files.parsing import (
    CsvParser,
    JsonParser,
    Malformed,
    Parser,
    TextParser,
)
from strom.connect.connectors.local_paths import path_problem, scheme_of
from strom.connect.setting_forms import choice, integer, milliseconds, string, strings

LOOK_FOR_FILES_S = 1.0
IDLE_S = 0.1
MOST_OPEN = 50
"""With more files than this, only those being read are kept open."""


@dataclass(frozen=True, kw_only=True)
class FileSourceSettings(ConnectorSettings):
    """Settings of the FileStreamSource."""

    file: str = string(
        "file",
        "The file to read, or a glob pattern of files: logs/*.log, logs/**/*.csv.gz. "
        "A *, ? or [ in a name is escaped as [*], [?] or [[].",
        required=True,
    )
    topic: str = string("topic", "The topic of the records.", required=True)
    batch_size: int = integer("batch.size", "The maximum number of records per poll.", 20_000)
    format: str = choice(
        "format",
        "The format of a line: a string, a CSV row (a struct as the value), or a JSON value.",
        ("lines", "csv", "json"),
    )
    encoding: str = string("encoding", "The character encoding.", "utf-8")
    max_line_bytes: int = integer(
        "max.line.bytes",
        "The limit on a line's length: a longer line is a malformed record.",
        1024 * 1024,
    )
    rotated_pattern: str | None = string(
        "rotated.pattern",
        "The pattern of the names of rotated files beside it: app-*.log. "
        "By default: its name followed by a number, a date or .old, with or without .gz.",
    )
    key_field: str | None = string(
        "key.field", "The field of CSV or JSON values to use as the record's key."
    )
    csv_delimiter: str = string("csv.delimiter", "The separator of fields.", ",")
    csv_columns: tuple[str, ...] = strings(
        "csv.columns", "The columns' names, for CSV files without a header line."
    )
    csv_null: str | None = string(
        "csv.null", "The text that represents null in CSV; none by default."
    )
    csv_unclosed_quote_ms: int = milliseconds(
        "csv.unclosed.quote.ms",
        "A quoted CSV field that is still open after the file has not grown for this time, while "
        "most lines "
        "behind it are rows by themselves, is a malformed record. Applies to two columns or more.",
        10_000,
    )
    task_index: int = integer(
        "task.index",
        "The share of the pattern's files that a task reads; set by the connector.",
        0,
        minimum=0,
        importance=Importance.LOW,
    )
    task_count: int = integer(
        "task.count",
        "The number of tasks that share a pattern's files; set by the connector.",
        1,
        importance=Importance.LOW,
    )

    def validate(self) -> Mapping[str, str]:
        """Path, encoding, delimiter and the combination of settings must be valid."""
        problems = {}
        if (problem := path_problem(self.file)) is not None:
            problems["file"] = problem
        if (scheme := scheme_of(self.file)) is not None:
            problems["file"] = (
                f"The scheme {scheme}: of {self.file} is not supported. Use the path of a local file."
            )
        if not _is_splittable(self.encoding):
            problems["encoding"] = (
                f"{self.encoding} is unsupported: lines must end with a single newline byte, as in "
                "utf-8, latin-1 and cp1252."
            )
        if len(self.csv_delimiter) != 1:
            problems["csv.delimiter"] = "csv.delimiter must be a single character."
        elif "encoding" not in problems and not _is_in(self.csv_delimiter, self.encoding):
            problems["csv.delimiter"] = (
                f"The delimiter {self.csv_delimiter!r} cannot be encoded as {self.encoding}."
            )
        if self.key_field and self.format == "lines":
            problems["key.field"] = "key.field needs format=csv or format=json."
        if self.rotated_pattern and self.path is None:
            problems["rotated.pattern"] = "rotated.pattern needs a single file, not a pattern."
        return problems

    @property
    def path(self) -> str | None:
        """The single file; None if `file` is a pattern."""
        return literal_path(self.file)


def _is_splittable(encoding: str) -> bool:
    try:
        return codecs.encode("\n", codecs.lookup(encoding).name) == b"\n"
    except (LookupError, TypeError):
        return False


def _is_in(text: str, encoding: str) -> bool:
    try:
        return bool(text.encode(encoding))
    except UnicodeEncodeError:
        return False


def _parser_and_splitter(
    settings: FileSourceSettings,
) -> tuple[Parser, Callable[[int, int], LineSplitter]]:
    if settings.format == "json":
        return JsonParser(settings.encoding), LineSplitter
    if settings.format == "csv":
        parser = CsvParser(
            settings.encoding, settings.csv_delimiter, settings.csv_columns, settings.csv_null
        )
        delimiter = settings.csv_delimiter.encode(settings.encoding)
        return parser, partial(CsvSplitter, delimiter=delimiter, is_row=parser.is_row)
    return TextParser(settings.encoding), LineSplitter


class FileReader:
    """Reads and parses the lines of one file."""

    def __init__(
        self,
        path: str,
        settings: FileSourceSettings,
        offset: Mapping[str, Any] | None,
        generations: Generations | None = None,
    ) -> None:
        self._settings = settings
        self._partition = {"filename": path}
        self._parser, self._splitter = _parser_and_splitter(settings)
        pattern = settings.rotated_pattern
        self._followed = FollowedFile(
            generations or Generations(Path(path), pattern, by_name=pattern is not None),
            Mark.of_offset(offset) if offset else None,
            lambda position: self._splitter(position, settings.max_line_bytes),
            self._first_line_at,
            settings.csv_unclosed_quote_ms / 1000,
        )
        self._identity: dict[str, Any] = {}
        self._texts: list[bytes | None] = []
        self._ends: list[int] = []
        self._problem: str | None = None  # the problem of the first line in the buffer

    def records(self) -> list[SourceRecord]:
        """The next records; PoisonRecord, once, for a malformed line."""
        if self._problem is not None:
            problem, self._problem = self._problem, None
            _, (end,) = self._take(1)
            number = self._followed.line_number(end)
            line = "the line" if number is None else f"line {number}"
            where = f"{self._partition['filename']}, {line} that ends at byte {end}"
            raise PoisonRecord(
                f"{where}: {problem}",
                source_partition=self._partition,
                source_offset={"position": end, **self._identity},
            )
        if not self._texts:
            self._texts, self._ends = self._followed.next_lines()
            self._identity = mark.identity() if (mark := self._followed.mark) else {}
        if not self._texts:
            return []
        return self._parsed(*self._take(self._settings.batch_size))

    def rest(self) -> None:
        """Close the file until it changes, if it was read to its end."""
        if not self._texts:
            self._followed.rest()

    @property
    def is_resting(self) -> bool:
        return self._followed.is_resting

    @property
    def is_finished(self) -> bool:
        """Whether everything read was delivered, and the file is no longer at the path."""
        return not self._texts and self._followed.is_finished

    @property
    def mark(self) -> Mark | None:
        return self._followed.mark

    def close(self) -> None:
        self._followed.close()

    def _take(self, count: int) -> tuple[list[bytes | None], list[int]]:
        taken = self._texts[:count], self._ends[:count]
        self._texts, self._ends = self._texts[count:], self._ends[count:]
        return taken

    def _parsed(self, texts: list[bytes | None], ends: list[int]) -> list[SourceRecord]:
        lines = [text.removesuffix(b"\r") for text in texts if text is not None]
        if len(lines) < len(texts):
            return self._parsed_one_by_one(texts, ends)
        kept = ends
        if self._parser.skips_empty_lines and b"" in lines:
            kept = [end for line, end in zip(lines, ends, strict=True) if line]
            lines = [line for line in lines if line]
        try:
            values = self._parser.values(lines)
        except Exception:  # noqa: BLE001 - parsing line by line finds the exact error
            return self._parsed_one_by_one(texts, ends)
        return self._made(values, kept)

    def _parsed_one_by_one(self, texts: list[bytes | None], ends: list[int]) -> list[SourceRecord]:
        """The records before the first malformed line, which stays in the buffer."""
        values, kept = [], []
        for place, (text, end) in enumerate(zip(texts, ends, strict=True)):
            try:
                if text is None:
                    raise Malformed(
                        f"it exceeds the limit of {self._settings.max_line_bytes} bytes (max.line.bytes)"
                    )
                line = text.removesuffix(b"\r")
                if line or not self._parser.skips_empty_lines:
                    values.append(self._parser.value(line))
                    kept.append(end)
            except Malformed as problem:
                self._problem = str(problem)
                self._texts = [*texts[place:], *self._texts]
                self._ends = [*ends[place:], *self._ends]
                break
        return self._made(values, kept)

    def _made(self, values: list[Any], ends: list[int]) -> list[SourceRecord]:
        partition = self._partition
        identity = self._identity
        topic, schema = self._settings.topic, self._parser.schema
        field = self._settings.key_field
        if field is None:
            new, kind = tuple.__new__, SourceRecord  # takes half the time of calling the class
            return [
                new(
                    kind,
                    (
                        partition, {"position": end, **identity}, topic, value,
                        schema, None, None, None, None, (),
                    ),
                )
                for value, end in zip(values, ends, strict=True)
            ]  # fmt: skip
        # Only CSV has a schema, with fields of strings.
        key_schema = OPTIONAL_STRING if schema is not None else None
        return [
            SourceRecord(
                partition,
                {"position": end, **identity},
                topic,
                value,
                schema,
                value.get(field) if isinstance(value, dict) else None,
                key_schema,
            )
            for value, end in zip(values, ends, strict=True)
        ]

    def _first_line_at(self, generation: Generation) -> int | None:
        """Where the lines start, after a byte order mark and a header; None: not known yet."""
        longest = self._settings.max_line_bytes
        mark = 0
        if codecs.lookup(self._settings.encoding).name == "utf-8":
            mark = len(codecs.BOM_UTF8) if generation.first(3) == codecs.BOM_UTF8 else 0
        if not isinstance(self._parser, CsvParser) or self._settings.csv_columns:
            return mark
        start = generation.first(mark + longest + 1)
        header = self._splitter(mark, longest).feed(start[mark:])
        if not header.texts:
            if len(start) - mark > longest:
                raise ConnectError(
                    f"The header of {generation.path} exceeds the limit of {longest} bytes; "
                    "raise max.line.bytes."
                )
            return None
        try:
            self._parser.name_columns(self._parser.row((header.texts[0] or b"").rstrip(b"\r")))
        except (Malformed, ValueError) as problem:
            raise ConnectError(f"The header of {generation.path} is invalid: {problem}.") from None
        return header.ends[0]


class FileSourceTask(SourceTask[FileSourceSettings]):
    """Reads the files that are assigned to it, in turns."""

    def __init__(self, settings: FileSourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._matching = MatchingReaders(
            (settings.task_index, settings.task_count),
            self._offset,
            lambda path, offset, generations: FileReader(path, settings, offset, generations),
        )
        self._readers = self._matching.readers
        self._turns: list[str] = []
        self._looked = float("-inf")

    def poll(self) -> Sequence[SourceRecord]:
        """The next records of the next file in turn that has any."""
        self._look_for_files()
        for _ in range(len(self._turns)):
            path = self._turns.pop(0)
            self._turns.append(path)
            records = self._readers[path].records()
            if records:
                return records
            if len(self._turns) > MOST_OPEN:
                self._readers[path].rest()
        # Examining many files takes time too.
        self.context.stopping.wait(min(1.0, IDLE_S * (1 + len(self._turns) / 100)))
        return []

    def stop(self) -> None:
        for reader in self._readers.values():
            reader.close()

    def _look_for_files(self) -> None:
        now = time.monotonic()
        path = self.settings.path
        if now - self._looked < LOOK_FOR_FILES_S or (self._turns and path is not None):
            return
        self._looked = now
        if path is not None:
            self._readers[path] = FileReader(path, self.settings, self._offset(path))
            self._turns = [path]
            return
        found = set(matching_files(self.settings.file))
        self._matching.look(found)
        turns = {
            path for path, reader in self._readers.items() if path in found or not reader.is_resting
        }
        self._turns = [path for path in self._turns if path in turns]
        self._turns += sorted(turns.difference(self._turns))

    def _offset(self, path: str) -> Mapping[str, Any] | None:
        return self.context.offset({"filename": path})


class FileStreamSource(SourceConnector[FileSourceSettings]):
    """Lines, CSV or JSON lines of files, which may grow and be rotated."""

    settings_class = FileSourceSettings
    task_class = FileSourceTask

    def task_settings(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """One task for one file; a pattern's files are assigned to tasks by their names."""
        if self.settings.path is not None:
            return [{}]
        return [
            {"task.index": str(index), "task.count": str(max_tasks)} for index in range(max_tasks)
        ]
