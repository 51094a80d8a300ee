"""FileStreamSource: what is in files becomes records."""

import glob
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
def test_an_offset_that_is_none_is_reported(tmp_path, offset):
    path = tmp_path / "in"
    path.write_text("x\n")
    offsets = StoredOffsets()
    offsets._offsets[json.dumps({"filename": str(path)})] = json.dumps({"other": 1, **offset})
    with pytest.raises(ConnectError, match="Invalid source offset"):
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
def test_a_header_of_no_use_is_reported(tmp_path, header):
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
        ("lines", b"a\n" + b"x" * 50 + b"\nb\n", ["a", "b"], "exceeds the limit of 20"),
    ],
)
def test_a_malformed_line_is_reported_once_and_the_others_come(tmp_path, form, lines, good, reason):
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


STRAY_QUOTES = [
    b'2,"b\n3,c\n4,d\n',  # none is after it
    b'2,"b\n3,"c"\n4,d\n',
    b'2,"b"x\n3,c\n4,d\n',
    b'2,"b\r\n3,c\r\n4,d\r\n',
]


@pytest.mark.parametrize("rows", STRAY_QUOTES)
@pytest.mark.parametrize("packed", [False, True])
def test_a_stray_quote_makes_one_malformed_row_and_the_others_come(tmp_path, rows, packed):
    path = tmp_path / ("in.csv.gz" if packed else "in.csv")
    text = b"id,name\n1,a\n" + rows
    path.write_bytes(gzip.compress(text) if packed else text)
    settings = {"file": str(path), "topic": "t", "format": "csv", "csv.unclosed.quote.ms": "0"}
    driver = SourceDriver(FileStreamSource, settings)
    driver.start()
    found: list[SourceRecord] = []
    reasons: list[str] = []
    while len(found) < 3:
        try:
            found += driver.read(1)
        except PoisonRecord as poison:
            reasons.append(str(poison))
    driver.stop()
    assert [record.value["id"] for record in found] == ["1", "3", "4"]
    assert [value["name"] for value in values(found)] == ["a", "c", "d"]
    assert len(reasons) == 1
    where = "" if packed else "line 3 "
    assert f"{path}, {where}" in reasons[0]
    assert "it is not CSV" in reasons[0]


def test_a_quoted_field_may_be_written_line_by_line(tmp_path):
    """Also where a file that does not grow is taken to be complete at once."""
    path = tmp_path / "in.csv"
    path.write_text("id,text\n")
    settings = {"file": str(path), "topic": "t", "format": "csv", "csv.unclosed.quote.ms": "0"}
    driver = SourceDriver(FileStreamSource, settings)
    driver.start()
    for part in ('1,"Dear Sir\n', "\n", "thank you, and\n", "good"):
        with path.open("a") as file:
            file.write(part)
        assert driver.poll() == []
    with path.open("a") as file:
        file.write(' bye"\n2,x\n')
    text = "Dear Sir\n\nthank you, and\ngood bye"
    assert values(driver.read(2)) == [{"id": "1", "text": text}, {"id": "2", "text": "x"}]
    driver.stop()


def test_a_file_that_may_still_grow_is_waited_for(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('id,text\n1,"a\n2,b\n')
    settings = {"file": str(path), "topic": "t", "format": "csv"}
    driver = SourceDriver(FileStreamSource, {**settings, "csv.unclosed.quote.ms": "3600000"})
    driver.start()
    assert [driver.poll() for _ in range(3)] == [[], [], []]
    with path.open("a") as file:
        file.write('3"\n')
    assert values(driver.read(1)) == [{"id": "1", "text": "a\n2,b\n3"}]
    driver.stop()


def test_of_many_files_one_with_a_stray_quote_is_not_closed_before_its_rows_are_given(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(source, "MOST_OPEN", 0)
    (tmp_path / "in.csv").write_text('id,name\n1,"a\n2,b\n')
    texts = {"file": str(tmp_path / "*"), "topic": "t", "format": "csv"}
    driver = SourceDriver(FileStreamSource, {**texts, "csv.unclosed.quote.ms": "50"})
    driver.start()
    with pytest.raises(PoisonRecord, match=r"line 2 .*a quoted field is not closed"):
        driver.read(1)
    assert values(driver.read(1)) == [{"id": "2", "name": "b"}]
    driver.stop()


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
    records = read(12, file=tmp_path / "*.log*", max_tasks=3)
    assert sorted(values(records)) == sorted(map(str, range(12)))


NAMES_LIKE_PATTERNS = ["a[1].csv", "what?.log", "x*y", "[", "a[", "]", "a[z-a]", "[!a]", "a\n[1]"]


@pytest.mark.parametrize("name", NAMES_LIKE_PATTERNS)
def test_a_file_with_a_name_like_a_pattern_is_read_by_it_and_by_its_escaped_form(tmp_path, name):
    (tmp_path / name).write_text("one\n")
    (tmp_path / "other").write_text("other\n")
    offsets = StoredOffsets()
    for written in (name, glob.escape(name)):
        records = read(1, file=f"{tmp_path}/{written}")
        assert values(records) == ["one"]
        assert records[0].source_partition == {"filename": f"{tmp_path}/{name}"}
        offsets.keep(records)
    (tmp_path / name).write_text("one\ntwo\n")
    assert values(read(1, offsets, file=f"{tmp_path}/{glob.escape(name)}")) == ["two"]


def test_an_escaped_name_is_a_single_file_with_rotated_ones_and_is_waited_for(tmp_path):
    pattern = f"{tmp_path}/a[[]1].log"
    settings = {"file": pattern, "topic": "t", "rotated.pattern": "a[[]1]-*.log"}
    driver = SourceDriver(FileStreamSource, settings)
    driver.start()
    assert driver.poll() == []
    (tmp_path / "a[1].log").write_text("one\n")
    (tmp_path / "a1.log").write_text("another file\n")
    assert values(driver.read(1)) == ["one"]
    driver.stop()
    with (tmp_path / "a[1].log").open("a") as file:
        file.write("two\n")
    (tmp_path / "a[1].log").rename(tmp_path / "a[1]-2026.log")
    (tmp_path / "a[1].log").write_text("three\n")
    again = SourceDriver(FileStreamSource, settings, driver.offsets)
    again.start()
    assert values(again.read(2)) == ["two", "three"]
    again.stop()


def test_a_file_that_a_pattern_names_twice_is_read_once(tmp_path):
    (tmp_path / "x*y").write_text("one\n")
    (tmp_path / "xxy").write_text("two\n")
    driver = SourceDriver(FileStreamSource, {"file": f"{tmp_path}//x*y", "topic": "t"})
    driver.start()
    assert sorted(values(driver.read(2))) == ["one", "two"]
    assert [driver.poll() for _ in range(3)] == [[], [], []]
    driver.stop()


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_a_name_that_is_no_text_is_read(tmp_path):
    with open(os.fsencode(tmp_path) + b"/\xff.log", "w") as file:
        file.write("one\n")
    assert values(read(1, file=f"{tmp_path}/*.log", max_tasks=2)) == ["one"]


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
def test_everything_in_a_file_is_read_or_reported(tmp_path_factory, data, form, longest):
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
        ({"file": "a\0b*"}, "file", "null character"),
        ({"file": "a\ud800"}, "file", "is invalid"),
        ({"format": "xml"}, "format", "lines, csv, json"),
        ({"encoding": "utf-16"}, "encoding", "utf-8"),
        ({"encoding": "klingon"}, "encoding", "utf-8"),
        ({"csv.delimiter": "ab"}, "csv.delimiter", "single"),
        ({"csv.delimiter": "€", "encoding": "latin-1"}, "csv.delimiter", "latin-1"),
        ({"key.field": "id"}, "key.field", "format=csv"),
        ({"batch.size": "0"}, "batch.size", "at least 1"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, name, hint):
    with pytest.raises(InvalidSettings) as refused:
        FileStreamSource.settings_class.read({"file": "f", "topic": "t", **wrong})
    assert hint in " ".join(refused.value.problems[name])
