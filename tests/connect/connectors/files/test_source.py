"""FileStreamSource: what is in files becomes records."""

import gzip
import json
import logging
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.connect.api import ConnectError, InvalidSettings, PoisonRecord, SourceRecord
from strom.connect.api.schema import OPTIONAL_STRING, STRING, struct
from strom.connect.connectors.files import source
from strom.connect.connectors.files.source import FileReader, FileStreamSource
from strom.connect.plugins import plugin
from strom.testing.connectors import SourceDriver, SourceLaws, StoredOffsets


class TestLines(SourceLaws):
    connector = FileStreamSource
    misspelt = ("topics", "topic")

    def settings(self, folder):
        return {"file": str(folder / "in.txt"), "topic": "lines"}

    def seed(self, folder, items):
        with (folder / "in.txt").open("a") as file:
            file.writelines(f"{item}\n" for item in items)

    def item(self, record):
        return int(record.value)


class TestCsv(TestLines):
    def settings(self, folder):
        return {**super().settings(folder), "format": "csv"}

    def seed(self, folder, items):
        with (folder / "in.txt").open("a") as file:
            if not file.tell():
                file.write("text,number\n")
            file.writelines(f'"line\n{item}",{item}\n' for item in items)

    def item(self, record):
        return int(record.value["number"])


class TestJson(TestLines):
    def settings(self, folder):
        return {**super().settings(folder), "format": "json", "batch.size": "4"}


class TestManyFiles(TestLines):
    ordered = False

    def settings(self, folder):
        return {"file": str(folder / "*.txt"), "topic": "lines"}

    def seed(self, folder, items):
        for item in items:
            with (folder / f"in{item % 3}.txt").open("a") as file:
                file.write(f"{item}\n")


def read(count, offsets=None, max_tasks=1, **settings):
    texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
    driver = SourceDriver(FileStreamSource, {"topic": "t", **texts}, offsets, max_tasks=max_tasks)
    driver.start()
    try:
        return driver.read(count)
    finally:
        driver.stop()


def values(records):
    return [record.value for record in records]


def test_it_is_known_by_the_names_of_kafkas_own():
    for name in ("FileStreamSource", "org.apache.kafka.connect.file.FileStreamSourceConnector"):
        assert plugin(name).load() is FileStreamSource


def test_partitions_and_offsets_carry_over_from_kafkas_own(tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"one\ntwo\nthree\n")
    offsets = StoredOffsets()
    offsets._offsets[json.dumps({"filename": str(path)})] = json.dumps({"position": 4})
    records = read(2, offsets, file=path)
    assert values(records) == ["two", "three"]
    assert records[0].source_partition == {"filename": str(path)}
    assert records[0].source_offset["position"] == 8
    assert records[0].value_schema == STRING


@pytest.mark.parametrize(
    "offset", [{}, {"position": -1}, {"position": "4"}, {"position": 4, "head": "x"}]
)
def test_an_offset_that_is_none_is_told(tmp_path, offset):
    path = tmp_path / "in"
    path.write_text("x\n")
    offsets = StoredOffsets()
    offsets._offsets[json.dumps({"filename": str(path)})] = json.dumps({"other": 1, **offset})
    with pytest.raises(ConnectError, match="position"):
        read(1, offsets, file=path)


def test_a_line_without_its_end_waits(tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"whole\nhal")
    driver = SourceDriver(FileStreamSource, {"file": str(path), "topic": "t"})
    driver.start()
    assert values(driver.read(1)) == ["whole"]
    assert driver.poll() == []
    with path.open("ab") as file:
        file.write(b"f\r\n")
    assert values(driver.read(1)) == ["half"]
    driver.stop()


def test_a_file_that_is_not_there_is_waited_for_and_this_is_said_once(tmp_path, caplog):
    path = tmp_path / "in"
    driver = SourceDriver(FileStreamSource, {"file": str(path), "topic": "t"})
    driver.start()
    with caplog.at_level(logging.WARNING):
        assert driver.poll() == driver.poll() == []
    assert [str(path) in message for message in caplog.messages] == [True]
    path.write_bytes(b"here\n")
    assert values(driver.read(1)) == ["here"]
    driver.stop()


def test_csv_rows_become_structs(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('id;name;note\n1;"Müller; Söhne";-\n\n2;"say ""hi""";x\n', "latin-1")
    records = read(
        2,
        file=path,
        format="csv",
        csv_delimiter=";",
        encoding="latin-1",
        csv_null="-",
        key_field="id",
    )
    assert values(records) == [
        {"id": "1", "name": "Müller; Söhne", "note": None},
        {"id": "2", "name": 'say "hi"', "note": "x"},
    ]
    assert records[0].value_schema == struct(dict.fromkeys(("id", "name", "note"), OPTIONAL_STRING))
    assert [record.key for record in records] == ["1", "2"]


def test_csv_files_without_a_header_have_their_columns_named(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("1,a\n")
    assert values(read(1, file=path, format="csv", csv_columns="id,name")) == [
        {"id": "1", "name": "a"}
    ]


@pytest.mark.parametrize("header", ["a,a\n", "a,\n", '"a"b,c\n'])
def test_a_header_of_no_use_is_told(tmp_path, header):
    path = tmp_path / "in.csv"
    path.write_text(header + "1,2\n")
    with pytest.raises(ConnectError, match=r"header of .*in\.csv"):
        read(1, file=path, format="csv")


@pytest.mark.parametrize(
    ("form", "lines", "good", "reason"),
    [
        ("json", b'{"a":1}\n{"a":\n2\n', [{"a": 1}, 2], "not JSON"),
        ("csv", b"a,b\n1,2\n3\n5,6\n", [{"a": "1", "b": "2"}, {"a": "5", "b": "6"}], "1 fields"),
        ("lines", b"a\n\xff\nb\n", ["a", "b"], "not utf-8"),
        ("lines", b"a\n" + b"x" * 50 + b"\nb\n", ["a", "b"], "longer than 20"),
    ],
)
def test_a_malformed_line_is_told_once_and_the_others_come(tmp_path, form, lines, good, reason):
    path = tmp_path / "in"
    path.write_bytes(lines)
    driver = SourceDriver(
        FileStreamSource,
        {"file": str(path), "topic": "t", "format": form, "max.line.bytes": "20"},
    )
    driver.start()
    assert values(driver.read(1)) == good[:1]
    with pytest.raises(PoisonRecord, match=reason) as poison:
        driver.poll()
    assert values(driver.read(1)) == good[1:]
    driver.stop()
    offsets = StoredOffsets()
    skipped = poison.value
    offsets.keep([SourceRecord(skipped.source_partition, skipped.source_offset, "t", None)])
    again = SourceDriver(
        FileStreamSource,
        {"file": str(path), "topic": "t", "format": form, "max.line.bytes": "20"},
        offsets,
    )
    again.start()
    assert values(again.read(1)) == good[1:]
    again.stop()


def test_compressed_files_are_read_to_their_end_and_gone_on_from(tmp_path):
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % n for n in range(3000)) + b"last"))
    records = read(3001, file=path)
    assert values(records) == [*map(str, range(3000)), "last"]
    offsets = StoredOffsets()
    offsets.keep(records[:2500])
    assert values(read(501, offsets, file=path)) == [*map(str, range(2500, 3000)), "last"]


def test_a_compressed_file_that_is_still_copied_is_waited_for(tmp_path):
    path = tmp_path / "in.gz"
    data = gzip.compress(b"one\ntwo")
    path.write_bytes(data[:-9])
    driver = SourceDriver(FileStreamSource, {"file": str(path), "topic": "t"})
    driver.start()
    assert driver.poll() == []
    with path.open("ab") as file:
        file.write(data[-9:])
    assert values(driver.read(2)) == ["one", "two"]
    driver.stop()


def test_a_patterns_files_are_shared_among_tasks_each_read_once(tmp_path):
    for number in range(12):
        (tmp_path / f"{number}.log").write_text(f"{number}\n")
    (tmp_path / "3.log.1").write_text("older\n")  # a part of 3.log, not a file of its own
    records = read(12, file=tmp_path / "*.log*", max_tasks=3)
    assert sorted(values(records)) == sorted(map(str, range(12)))


def test_a_byte_order_mark_belongs_to_no_line(tmp_path):
    for form, text, value in (
        ("csv", "id\n1\n", {"id": "1"}),
        ("json", "1\n", 1),
        ("lines", "x\n", "x"),
    ):
        path = tmp_path / form
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert values(read(1, file=path, format=form)) == [value]


def test_long_fields_of_csv_are_read(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("id\n" + "x" * 200_000 + "\n")
    assert len(values(read(1, file=path, format="csv"))[0]["id"]) == 200_000


@pytest.mark.parametrize("packed", [False, True])
def test_of_many_files_only_those_that_are_read_are_held_open(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(source, "MOST_OPEN", 3)
    monkeypatch.setattr(source, "LOOK_FOR_FILES_S", 0)
    names = [f"{number}.{'gz' if packed else 'log'}" for number in range(20)]
    for name in names:
        text = f'"{name}"\n\n\n"half\n'.encode()
        (tmp_path / name).write_bytes(gzip.compress(text + b'"\n') if packed else text)
    texts = {"file": str(tmp_path / "*"), "topic": "t", "format": "csv", "csv.columns": "a"}
    driver = SourceDriver(FileStreamSource, texts)
    driver.start()
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    found = values(driver.read(40 if packed else 20))
    for _ in range(3):
        driver.poll()
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before
    if not packed:
        for name in names:
            with (tmp_path / name).open("a") as file:
                file.write('"\n')
        (tmp_path / names[0]).rename(tmp_path / f"{names[0]}.1")
        (tmp_path / names[0]).write_text("new\n")
        found += values(driver.read(21))
    driver.stop()
    expected = [*names, *["half\n"] * 20, *([] if packed else ["new"])]
    assert sorted(row["a"] for row in found) == sorted(expected)


@given(st.binary(max_size=300), st.sampled_from(["lines", "csv", "json"]), st.integers(1, 60))
@settings(deadline=None, max_examples=200)
def test_whatever_is_in_a_file_is_read_or_told(tmp_path_factory, data, form, longest):
    path = tmp_path_factory.getbasetemp() / "anything"
    path.write_bytes(data)
    reader = FileReader(
        str(path),
        FileStreamSource.settings_class.read(
            {
                "file": str(path),
                "topic": "t",
                "format": form,
                "csv.columns": "a,b",
                "max.line.bytes": str(longest),
            }
        ),
        None,
    )
    positions, told = [], 0
    for _ in range(2 + 2 * data.count(b"\n")):
        try:
            positions += [record.source_offset["position"] for record in reader.records()]
        except PoisonRecord:
            told += 1
    reader.close()
    lines = data.count(b"\n")
    assert positions == sorted(set(positions))
    assert len(positions) + told <= lines
    if form == "lines":
        assert len(positions) + told == lines


@pytest.mark.parametrize(
    ("wrong", "name", "hint"),
    [
        ({"fromat": "csv"}, "fromat", "format"),
        ({"file": "s3://bucket/in.txt"}, "file", "s3: of s3://bucket/in.txt is not supported"),
        ({"format": "xml"}, "format", "lines, csv, json"),
        ({"encoding": "utf-16"}, "encoding", "utf-8"),
        ({"encoding": "klingon"}, "encoding", "utf-8"),
        ({"csv.delimiter": "ab"}, "csv.delimiter", "single"),
        ({"key.field": "id"}, "key.field", "format=csv"),
        ({"batch.size": "0"}, "batch.size", "at least 1"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, name, hint):
    with pytest.raises(InvalidSettings) as refused:
        FileStreamSource.settings_class.read({"file": "f", "topic": "t", **wrong})
    assert hint in " ".join(refused.value.problems[name])
