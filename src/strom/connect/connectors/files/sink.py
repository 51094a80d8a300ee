"""FileStreamSink: writes records as lines of a file, exactly once.

It supports Kafka's settings, and beyond them CSV and JSON, rotation, and offsets stored beside the file.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from strom.connect.api import (
    ConnectorSettings,
    Kind,
    PoisonRecord,
    SinkConnector,
    SinkContext,
    SinkRecord,
    SinkTask,
    StoredPosition,
    TopicPartition,
    resumed_position,
    setting,
)
from strom.connect.connectors.files.formatting import (
    CsvFormatter,
    Formatter,
    JsonFormatter,
    TextFormatter,
)
from strom.connect.connectors.files.positions import PositionedFile
from strom.connect.connectors.local_paths import path_problem
from strom.connect.setting_forms import boolean, choice, milliseconds, string, strings


@dataclass(frozen=True, kw_only=True)
class FileSinkSettings(ConnectorSettings):
    """Settings of the FileStreamSink."""

    file: str | None = string(
        "file", "The path of the file; the worker's standard output if empty."
    )
    format: str = choice(
        "format", "The format of a line: the value's text, CSV, or JSON.", ("lines", "csv", "json")
    )
    encoding: str = string("encoding", "The character encoding.", "utf-8")
    csv_delimiter: str = string("csv.delimiter", "The separator of fields.", ",")
    csv_columns: tuple[str, ...] = strings(
        "csv.columns", "The columns; by default the fields of the first record."
    )
    csv_header: bool = boolean("csv.header", "Whether a CSV file starts with a header line.", True)
    rotate_bytes: int | None = setting(
        "rotate.bytes",
        Kind.LONG,
        "Rotate the file when it reaches this size.",
        minimum=1,
    )
    rotate_interval_ms: int | None = milliseconds(
        "rotate.interval.ms", "Rotate the file when it reaches this age.", minimum=1
    )

    def validate(self) -> Mapping[str, str]:
        """The encoding and delimiter must be valid, and rotation needs a file."""
        problems = {}
        if self.file is not None and (problem := path_problem(self.file)) is not None:
            problems["file"] = problem
        try:
            "\n".encode(self.encoding)
        except LookupError:
            problems["encoding"] = f"Unknown encoding {self.encoding}."
        if len(self.csv_delimiter) != 1:
            problems["csv.delimiter"] = "csv.delimiter must be a single character."
        for name in ("rotate.bytes", "rotate.interval.ms"):
            if self.value(name) is not None and self.file is None:
                problems[name] = f"{name} needs a file."
        return problems


def _formatter(settings: FileSinkSettings) -> Formatter:
    if settings.format == "json":
        return JsonFormatter(settings.encoding)
    if settings.format == "csv":
        return CsvFormatter(settings.encoding, settings.csv_delimiter, settings.csv_columns)
    return TextFormatter(settings.encoding)


class FileSinkTask(SinkTask[FileSinkSettings]):
    """Appends lines, and stores the offsets of what it has appended."""

    def __init__(self, settings: FileSinkSettings, context: SinkContext) -> None:
        super().__init__(settings, context)
        self._file: PositionedFile | None = None
        self._formatter = _formatter(settings)
        self._begun_at = time.monotonic()

    def start(self) -> None:
        if self.settings.file is not None:
            self._file = PositionedFile(Path(self.settings.file))
            begun = self._file.length > 0 and self.settings.csv_header
            if begun and isinstance(self._formatter, CsvFormatter):
                self._formatter.read_header(self._file.first_line())

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Continue from the stored offsets; a recreated topic starts from its beginning."""
        file = self._file
        if file is None:
            return {}
        is_changed = False
        for partition in partitions:
            if partition in file.positions:
                stored = StoredPosition(file.positions[partition], file.topic_ids.get(partition))
                now = resumed_position(stored, partition, self.context)
                file.positions[partition], topic_id = now
                is_changed |= now != stored
            else:
                topic_id = self.context.topic_id(partition.topic)
            if topic_id is not None:
                file.topic_ids[partition] = topic_id
        if is_changed:
            file.flush()
        known = file.positions
        return {partition: known[partition] for partition in partitions if partition in known}

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Append the records that the file does not contain yet."""
        if self._file is None:
            sys.stdout.write(self._formatter.lines(records).decode(self.settings.encoding))
            return
        known = self._file.positions
        origins = [(record.original_topic or record.topic, record.partition) for record in records]
        places: Sequence[int] = range(len(records))
        if known:  # after a failure the runtime may put records again that are in the file
            places = [
                place for place in places if records[place].offset >= known.get(origins[place], 0)
            ]
        fresh = [records[place] for place in places]
        if not fresh:
            return
        try:
            data = self._formatter.lines(fresh)
        except PoisonRecord as poison:
            raise PoisonRecord(str(poison), places[poison.index]) from None
        positions = {origins[place]: records[place].offset + 1 for place in places}
        self._file.append(self._header(fresh[0]) + data, positions)

    def advance(self, positions: Mapping[TopicPartition, int]) -> None:
        """Advance the positions behind skipped records, too."""
        if self._file is not None:
            known = self._file.positions
            known.update({one: max(at, known.get(one, 0)) for one, at in positions.items()})

    def flush(self) -> None:
        """Flush the file, and rotate it if it is due."""
        if self._file is None:
            sys.stdout.flush()
            return
        self._file.flush()
        if self._file.length and self._is_full(self._file.length):
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
            self._file.rotate(f"{self._file.path.name}.{stamp}")
            self._begun_at = time.monotonic()

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()

    def _header(self, first: SinkRecord) -> bytes:
        begins = self._file is not None and self._file.length == 0
        if begins and self.settings.csv_header and isinstance(self._formatter, CsvFormatter):
            return self._formatter.header(first)
        return b""

    def _is_full(self, length: int) -> bool:
        limit, age_ms = self.settings.rotate_bytes, self.settings.rotate_interval_ms
        if limit is not None and length >= limit:
            return True
        return age_ms is not None and (time.monotonic() - self._begun_at) * 1000 >= age_ms


class FileStreamSink(SinkConnector[FileSinkSettings]):
    """Records as lines of a file."""

    settings_class = FileSinkSettings
    task_class = FileSinkTask

    def set_positions(self, connector: str, positions: Mapping[TopicPartition, int]) -> None:
        """Store the positions; the content of the file stays."""
        if self.settings.file is not None:
            file = PositionedFile(Path(self.settings.file))
            try:
                for partition, position in positions.items():
                    file.positions[partition] = position
                    file.topic_ids.pop(
                        partition, None
                    )  # adopted from the topic when the connector starts
                file.flush()
            finally:
                file.close()

    def check(self) -> Mapping[str, str]:
        """Check that the file's folder exists."""
        if self.settings.file is not None and not Path(self.settings.file).parent.is_dir():
            return {"file": f"The folder {Path(self.settings.file).parent} does not exist."}
        return {}

    def task_settings(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """One task: a file has one writer."""
        return [{}]
