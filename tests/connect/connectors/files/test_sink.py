"""FileStreamSink: records become lines, each exactly once."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from strom.connect.api import (
    ConnectError,
    InvalidSettings,
    PoisonRecord,
    RetriableError,
    SinkRecord,
    TopicPartition,
)
from strom.connect.api.schema import INT64, STRING, struct
from strom.connect.connectors.files.positions import PositionedFile
from strom.connect.connectors.files.sink import FileStreamSink
from strom.connect.plugins import plugin
from strom.testing.connectors import SinkDriver, SinkLaws

PARTITION = TopicPartition("t", 0)


class TestLines(SinkLaws):
    connector = FileStreamSink
    exactly_once = True

    def settings(self, folder):
        return {"file": str(folder / "out.txt")}

    def value(self, item):
        return STRING, str(item)

    def stored(self, folder):
        return [int(line) for line in (folder / "out.txt").read_text().splitlines()]


class TestCsv(TestLines):
    def settings(self, folder):
        return {**super().settings(folder), "format": "csv"}

    def value(self, item):
        return struct({"number": INT64, "text": STRING}), {"number": item, "text": "a,\nb"}

    def stored(self, folder):
        lines = (folder / "out.txt").read_text().splitlines()
        assert lines[:1] == ["number,text"]
        return [int(line.partition(",")[0]) for line in lines[1::2]]


class TestRotated(TestLines):
    def settings(self, folder):
        return {**super().settings(folder), "rotate.bytes": "10"}

    def stored(self, folder):
        older = sorted(folder.glob("out.txt.2*"))
        texts = "".join(path.read_text() for path in (*older, folder / "out.txt"))
        return [int(line) for line in texts.splitlines()]


def record(offset, value, partition=0):
    return SinkRecord("t", partition, offset, value)


def started(path, **settings):
    texts = {name.replace("_", "."): text for name, text in settings.items()}
    driver = SinkDriver(FileStreamSink, {"file": str(path), **texts})
    return driver, driver.start([PARTITION])


def test_it_is_known_by_the_names_of_kafkas_own():
    for name in ("FileStreamSink", "org.apache.kafka.connect.file.FileStreamSinkConnector"):
        assert plugin(name).load() is FileStreamSink


def test_what_was_not_flushed_is_cut_off_when_the_file_is_opened_again(tmp_path):
    path = tmp_path / "out"
    path.write_text("there before\n")
    first, _ = started(path)
    first.put([record(0, "safe")])
    first.flush()
    first.put([record(1, "not safe")])
    first.stop()
    assert "not safe" in path.read_text()
    second, positions = started(path)
    assert positions == {PARTITION: 1}
    second.stop()
    assert path.read_text() == "there before\nsafe\n"


def test_what_is_in_the_file_already_is_not_written_again(tmp_path):
    driver, _ = started(tmp_path / "out")
    driver.put([record(0, "a"), record(1, "b")])
    driver.put([record(1, "b"), record(2, "c"), record(0, "other", partition=1)])
    driver.flush()
    driver.stop()
    assert (tmp_path / "out").read_text() == "a\nb\nc\nother\n"


def test_records_that_a_transform_gave_another_topic_count_in_their_own(tmp_path):
    driver, _ = started(tmp_path / "out")
    here = SinkRecord("all", 0, 5, "a", original_topic="t")
    there = SinkRecord("all", 0, 5, "b", original_topic="other")
    driver.put([here, there])
    driver.put([here, there])
    driver.flush()
    driver.stop()
    assert (tmp_path / "out").read_text() == "a\nb\n"
    again, positions = started(tmp_path / "out")
    assert positions == {PARTITION: 6}
    again.stop()


def test_a_poison_record_leaves_the_file_alone_and_is_named_by_its_place(tmp_path):
    driver, _ = started(tmp_path / "out", format="json")
    driver.put([record(0, 1)])
    with pytest.raises(PoisonRecord) as poison:
        driver.put([record(0, 1), record(1, 2), record(2, object())])
    assert poison.value.index == 2
    driver.put([record(1, 2)])
    driver.stop()
    assert (tmp_path / "out").read_text() == "1\n2\n"


def test_values_of_all_kinds_become_json(tmp_path):
    driver, _ = started(tmp_path / "out", format="json")
    value = {
        "d": Decimal("1.10"),
        "t": datetime(2026, 1, 2, tzinfo=UTC),
        "b": b"\x00\xff",
        "s": "ü",
        "n": None,
    }
    driver.put([record(0, value)])
    driver.stop()
    assert json.loads((tmp_path / "out").read_text("utf-8")) == {
        "d": "1.10",
        "t": "2026-01-02T00:00:00+00:00",
        "b": "AP8=",
        "s": "ü",
        "n": None,
    }


@pytest.mark.parametrize(
    "value", ["text", {"a": 1, "c": 2}, None], ids=["no struct", "unknown field", "null"]
)
def test_what_does_not_fit_the_columns_is_a_poison_record(tmp_path, value):
    driver, _ = started(tmp_path / "out", format="csv", csv_columns="a,b")
    with pytest.raises(PoisonRecord):
        driver.put([record(0, value)])
    driver.put([record(1, {"b": "x"})])
    driver.stop()
    assert (tmp_path / "out").read_text() == "a,b\n,x\n"


def test_characters_that_the_encoding_lacks_are_a_poison_record(tmp_path):
    driver, _ = started(tmp_path / "out", encoding="latin-1")
    with pytest.raises(PoisonRecord, match="latin-1") as poison:
        driver.put([record(0, "ü"), record(1, "中")])
    assert poison.value.index == 1
    driver.stop()


def test_without_a_file_lines_go_to_standard_output(capsys):
    driver = SinkDriver(FileStreamSink, {})
    assert driver.start([PARTITION]) == {}
    driver.put([record(0, "seen"), record(1, None)])
    driver.flush()
    driver.stop()
    assert capsys.readouterr().out == "seen\nnull\n"


@pytest.mark.parametrize("name", ["a[1].csv", "what?.log", "x*y", "[", "a[[]1]"])
def test_a_name_like_a_pattern_is_written_as_it_is(tmp_path, name):
    driver, _ = started(tmp_path / name)
    driver.put([record(0, "x")])
    driver.flush()
    driver.stop()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, f"{name}.positions"])


def test_a_name_that_is_too_long_is_refused_with_a_reason(tmp_path):
    driver = SinkDriver(FileStreamSink, {"file": str(tmp_path / ("x" * 250))})
    with pytest.raises(ConnectError, match=r"\.positions cannot be read: .*name"):
        driver.task.start()


def test_two_writers_of_one_file_are_refused(tmp_path):
    first, _ = started(tmp_path / "out")
    second = SinkDriver(FileStreamSink, {"file": str(tmp_path / "out")})
    with pytest.raises(ConnectError, match="still writing"):
        second.task.start()
    first.stop()
    second.start([PARTITION])
    second.stop()


def test_positions_that_cannot_be_read_are_not_guessed(tmp_path):
    (tmp_path / "out.positions").write_text("{")
    with pytest.raises(ConnectError, match=r"out\.positions"):
        started(tmp_path / "out")


def test_a_folder_that_is_not_there_is_said_at_creation(tmp_path):
    settings = FileStreamSink.settings_class.read({"file": str(tmp_path / "no" / "out")})
    assert "no" in FileStreamSink(settings).check()["file"]


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"encoding": "klingon"}, "encoding"),
        ({"csv.delimiter": ""}, None),
        ({"csv.delimiter": "ab"}, "csv.delimiter"),
        ({"rotate.bytes": "5"}, "rotate.bytes"),
        ({"file": "a\0b"}, "file"),
        ({"file": "a\ud800"}, "file"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, name):
    if name is None:
        FileStreamSink.settings_class.read(wrong)
        return
    with pytest.raises(InvalidSettings) as refused:
        FileStreamSink.settings_class.read(wrong)
    assert name in refused.value.problems


def test_positions_that_cannot_be_written_at_first_are_waited_for(tmp_path):
    in_the_way = tmp_path / "out.txt.positions.new"
    in_the_way.mkdir()
    with pytest.raises(RetriableError, match=r"out\.txt\.positions is not writable"):
        PositionedFile(tmp_path / "out.txt")
    in_the_way.rmdir()
    PositionedFile(tmp_path / "out.txt").close()


def test_what_follows_a_crash_during_rotation_is_not_repeated(tmp_path):
    """The file had its other name already, and its positions were still those of the old file."""
    path = tmp_path / "out.txt"
    file = PositionedFile(path)
    file.append(b"old lines\n", {("t", 0): 2})
    file.flush()
    file.close()
    path.rename(tmp_path / "out.txt.1")
    file = PositionedFile(path)
    file.append(b"new\n", {("t", 0): 3})
    file.close()  # a second crash, before a flush
    file = PositionedFile(path)
    assert (file.length, file.positions) == (0, {("t", 0): 2})
    file.close()
