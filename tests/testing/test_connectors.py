"""The laws of connectors hold for a right connector, and catch wrong ones."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strom.connect.api import (
    ConnectorSettings,
    Kind,
    RetriableError,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    TopicPartition,
    setting,
)
from strom.connect.api.schema import STRING
from strom.testing.connectors import TOPIC, SinkLaws, SourceLaws


@dataclass(frozen=True, kw_only=True)
class LineSettings(ConnectorSettings):
    file: str = setting("file", Kind.STRING, "The file.", required=True)
    topic: str = setting("topic", Kind.STRING, "Where lines go.", "lines")
    token: str | None = setting("token", Kind.PASSWORD, "Never shown.")


class LineSourceTask(SourceTask[LineSettings]):
    def start(self) -> None:
        self.partition = {"file": self.settings.file}
        self.line = (self.context.offset(self.partition) or {"line": 0})["line"]

    def poll(self) -> Sequence[SourceRecord]:
        try:
            lines = Path(self.settings.file).read_text().splitlines()[self.line :]
        except FileNotFoundError:
            raise RetriableError(f"{self.settings.file} is away.") from None
        if not lines:
            self.context.stopping.wait(0.05)
        records = [
            SourceRecord(self.partition, {"line": self.line + number}, self.settings.topic, text)
            for number, text in enumerate(lines, 1)
        ]
        self.line += len(lines)
        return records


class LineSource(SourceConnector[LineSettings]):
    settings_class = LineSettings
    task_class = LineSourceTask


class LineSinkTask(SinkTask[LineSettings]):
    """Keeps lines and position in one file, which it replaces as a whole."""

    def open(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self.content: dict[str, Any] = {"next": 0, "lines": []}
        file = Path(self.settings.file)
        if file.exists():
            self.content = json.loads(file.read_text())
        topic_id = self.context.topic_id(partitions[0].topic)
        if self.content.setdefault("topic", topic_id) != topic_id:
            self.content |= {"topic": topic_id, "next": 0}
        return {partitions[0]: self.content["next"]}

    def put(self, records: Sequence[Any]) -> None:
        for record in records:
            self.content["lines"].append(record.value)
            self.content["next"] = record.offset + 1

    def advance(self, positions: Mapping[TopicPartition, int]) -> None:
        self.content["next"] = max([self.content["next"], *positions.values()])

    def flush(self) -> None:
        file = Path(self.settings.file)
        if not file.parent.exists():
            raise RetriableError(f"{file.parent} is away.")
        partial = file.with_suffix(".new")
        partial.write_text(json.dumps(self.content))
        partial.replace(file)


class LineSink(SinkConnector[LineSettings]):
    settings_class = LineSettings
    task_class = LineSinkTask


class TestARightSource(SourceLaws):
    connector = LineSource

    def settings(self, folder: Path) -> dict[str, str]:
        return {"file": str(folder / "in.txt")}

    def seed(self, folder: Path, items: Sequence[int]) -> None:
        with (folder / "in.txt").open("a") as file:
            file.writelines(f"{item}\n" for item in items)

    def item(self, record: SourceRecord) -> int:
        return int(record.value)

    def take_away(self, folder: Path) -> bool:
        (folder / "in.txt").rename(folder / "away.txt")
        return True

    def bring_back(self, folder: Path) -> None:
        (folder / "away.txt").rename(folder / "in.txt")


class TestARightSink(SinkLaws):
    connector = LineSink
    exactly_once = True

    def settings(self, folder: Path) -> dict[str, str]:
        (folder / "out").mkdir(exist_ok=True)
        return {"file": str(folder / "out" / "out.json")}

    def value(self, item: int) -> tuple[Any, Any]:
        return STRING, str(item)

    def stored(self, folder: Path) -> list[int]:
        file = folder / "out" / "out.json"
        return (
            [int(line) for line in json.loads(file.read_text())["lines"]] if file.exists() else []
        )

    def take_away(self, folder: Path) -> bool:
        (folder / "out").rename(folder / "elsewhere")
        return True

    def bring_back(self, folder: Path) -> None:
        if (folder / "out").exists():
            (folder / "out").rmdir()
        (folder / "elsewhere").rename(folder / "out")


class ForgetfulSourceTask(LineSourceTask):
    def start(self) -> None:
        super().start()
        self.line = 0


class ForgetfulSource(LineSource):
    task_class = ForgetfulSourceTask


class ForgetfulSinkTask(LineSinkTask):
    def open(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        super().open(partitions)
        return {TopicPartition(TOPIC, 0): 0}


class ForgetfulSink(LineSink):
    task_class = ForgetfulSinkTask


def test_a_source_that_forgets_its_position_is_caught(tmp_path):
    laws = type("Laws", (TestARightSource,), {"connector": ForgetfulSource})()
    with pytest.raises(AssertionError):
        laws.test_a_restart_goes_on_after_the_last_delivered_record(tmp_path)


def test_a_sink_that_forgets_its_position_is_caught(tmp_path):
    laws = type("Laws", (TestARightSink,), {"connector": ForgetfulSink})()
    with pytest.raises(AssertionError):
        laws.test_a_batch_that_is_repeated_after_a_crash_changes_nothing(tmp_path)


class StandingSinkTask(LineSinkTask):
    def advance(self, positions: Mapping[TopicPartition, int]) -> None:
        """Stay where the last record was put."""


class StandingSink(LineSink):
    task_class = StandingSinkTask


def test_a_sink_that_reads_skipped_records_again_is_caught(tmp_path):
    laws = type("Laws", (TestARightSink,), {"connector": StandingSink})()
    with pytest.raises(AssertionError):
        laws.test_a_restart_goes_on_behind_skipped_records(tmp_path)


class NameBoundSinkTask(LineSinkTask):
    def open(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        file = Path(self.settings.file)
        super().open(partitions)
        if file.exists():
            self.content = json.loads(file.read_text())
        return {partitions[0]: self.content["next"]}


class NameBoundSink(LineSink):
    task_class = NameBoundSinkTask


def test_a_sink_that_takes_a_recreated_topic_for_the_old_one_is_caught(tmp_path):
    laws = type("Laws", (TestARightSink,), {"connector": NameBoundSink})()
    with pytest.raises(AssertionError):
        laws.test_a_recreated_topic_is_stored_from_its_beginning(tmp_path)
