"""Whatever rotation does to a file, every line is read once and in order."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.connect.connectors.files import source
from strom.connect.connectors.files.source import FileStreamSource
from strom.testing.connectors import SourceDriver, StoredOffsets


class RotatedLog:
    """A program that writes numbered lines, and what rotates its file meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "app.log"
        self.written = 0
        self._time = 1_700_000_000_000_000_000
        self.path.touch()

    def write(self, count: int) -> None:
        with self.path.open("a") as file:
            for _ in range(count):
                file.write(f"line {self.written}\n")
                self.written += 1
        self._tick(self.path)

    def rename(self) -> None:
        self._make_room()
        self.path.rename(self._rotated(1))
        self.path.touch()
        self._tick(self.path)

    def copy_and_cut(self) -> None:
        self._make_room()
        shutil.copyfile(self.path, self._rotated(1))
        self._tick(self._rotated(1))
        os.truncate(self.path, 0)
        self._tick(self.path)

    def compress(self) -> None:
        for number in range(1, 50):
            plain = self._rotated(number)
            if plain.exists():
                packed = plain.with_name(plain.name + ".gz")
                packed.write_bytes(gzip.compress(plain.read_bytes()))
                times = plain.stat().st_mtime_ns
                os.utime(packed, ns=(times, times))
                plain.unlink()

    def _rotated(self, number: int) -> Path:
        return self.path.with_name(f"app.log.{number}")

    def _make_room(self) -> None:
        for number in range(49, 0, -1):
            for end in ("", ".gz"):
                old = self.path.with_name(f"app.log.{number}{end}")
                if old.exists():
                    old.rename(self.path.with_name(f"app.log.{number + 1}{end}"))

    def _tick(self, path: Path) -> None:
        """Time goes on from write to write, however fast the test is."""
        self._time += 1_000_000_000
        os.utime(path, ns=(self._time, self._time))


class Reader:
    """A connector that is stopped and started again."""

    def __init__(self, log: RotatedLog) -> None:
        self._settings = {"file": str(log.path), "topic": "t"}
        self._offsets = StoredOffsets()
        self.lines: list[str] = []
        self._driver = self._started()

    def read(self) -> None:
        empty = 0
        while empty < 40:  # a change of files takes a poll of its own
            records = self._driver.read_once(self._offsets)
            self.lines += [record.value for record in records]
            empty = 0 if records else empty + 1

    def restart(self) -> None:
        self._driver.stop()
        self._driver = self._started()

    def stop(self) -> None:
        self._driver.stop()

    def _started(self) -> "OneTask":
        driver = OneTask(FileStreamSource, self._settings, self._offsets)
        driver.start()
        return driver


class OneTask(SourceDriver):
    def read_once(self, offsets):
        records = self.poll()
        offsets.keep(records)
        return records


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(source, "IDLE_S", 0)


STEPS = ["write", "read", "rename", "copy_and_cut", "compress", "restart"]


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=25), most_open=st.sampled_from([0, 50]))
def test_every_line_is_read_once_and_in_order(tmp_path_factory, steps, most_open):
    """With `most_open` = 0 the file is closed whenever its end is reached."""
    usual, source.MOST_OPEN = source.MOST_OPEN, most_open
    try:
        play(tmp_path_factory.mktemp("rotation"), steps)
    finally:
        source.MOST_OPEN = usual


@pytest.mark.parametrize(
    "steps",
    [
        ["write", "read", "write", "rename", "write"],
        ["write", "read", "write", "rename", "write", "rename", "write", "compress"],
        ["write", "read", "write", "rename", "write", "restart"],
        ["write", "read", "write", "copy_and_cut", "write"],
        ["write", "read", "write", "copy_and_cut", "write", "rename", "write", "restart"],
        ["write", "read", "write", "rename", "compress", "restart", "write"],
        ["write", "read", "rename", "read", "write", "restart"],
    ],
)
def test_these_ways_to_rotate_lose_nothing(tmp_path, steps):
    play(tmp_path, steps)


def play(folder: Path, steps: list[str]) -> None:
    log = RotatedLog(folder)
    reader = Reader(log)
    log.write(1)
    reader.read()  # a connector that has never read anything begins with what is at the path
    try:
        for step in steps:
            if step == "write":
                log.write(7)
            elif step in {"read", "restart"}:
                getattr(reader, step)()
            else:
                getattr(log, step)()
        log.write(1)
        reader.read()
        assert reader.lines == [f"line {number}" for number in range(log.written)]
    finally:
        reader.stop()
        shutil.rmtree(folder)


def test_what_is_written_to_the_renamed_file_until_the_new_one_has_text_is_read(tmp_path):
    log = RotatedLog(tmp_path)
    reader = Reader(log)
    writer = log.path.open("a", buffering=1)
    writer.write("one\n")
    reader.read()
    log.path.rename(tmp_path / "app.log.1")
    log.path.touch()
    reader.read()
    writer.write("two\nthree, without an end")
    writer.close()
    log.path.write_text("four\n")
    reader.read()
    assert reader.lines == ["one", "two", "three, without an end", "four"]
    reader.restart()
    reader.read()
    assert reader.lines == ["one", "two", "three, without an end", "four"]
    reader.stop()


def test_a_file_that_was_cut_and_has_grown_longer_than_before_is_read_from_its_beginning(tmp_path):
    log = RotatedLog(tmp_path)
    reader = Reader(log)
    log.path.write_text("short\n")
    reader.read()
    with log.path.open("w") as file:
        file.write("much longer than before\n")
    reader.read()
    assert reader.lines == ["short", "much longer than before"]
    reader.stop()


def test_a_file_that_is_replaced_by_another_while_no_task_runs_is_reported(tmp_path, caplog):
    log = RotatedLog(tmp_path)
    reader = Reader(log)
    log.path.write_text("old\n")
    reader.read()
    reader.stop()
    log.path.unlink()
    log.path.write_text("new text\n")
    reader.restart()
    reader.read()
    assert reader.lines == ["old", "new text"]
    assert "are lost" in caplog.text
    reader.stop()


def test_rotated_files_may_be_called_otherwise(tmp_path):
    path = tmp_path / "app.log"
    path.write_text("one\n")
    driver = SourceDriver(
        FileStreamSource, {"file": str(path), "topic": "t", "rotated.pattern": "app-*.log"}
    )
    driver.start()
    driver.read(1)
    with path.open("a") as file:
        file.write("two\n")
    driver.stop()
    path.rename(tmp_path / "app-2026.log")
    path.write_text("three\n")
    again = SourceDriver(
        FileStreamSource,
        {"file": str(path), "topic": "t", "rotated.pattern": "app-*.log"},
        driver.offsets,
    )
    again.start()
    assert [record.value for record in again.read(2)] == ["two", "three"]
    again.stop()


HEADER = "# a licence that is longer than what a file's head holds\n" * 40 + "text\n"


def read_all(driver):
    """All that is there: a change of files takes a poll of its own."""
    found, empty = [], 0
    while empty < 5:
        records = driver.poll()
        driver.offsets.keep(records)
        found += [record.value for record in records]
        empty = 0 if records else empty + 1
    return found


def started(path, offsets=None, **settings):
    texts = {"file": str(path), "topic": "t", **settings}
    driver = SourceDriver(FileStreamSource, texts, offsets)
    driver.start()
    return driver


@pytest.mark.parametrize("same_inode", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_another_file_with_the_same_first_bytes_is_read_from_its_beginning(
    tmp_path, same_inode, restart
):
    path = tmp_path / "in"
    path.write_text(HEADER + "old 1\nold 2\n")
    driver = started(path)
    assert read_all(driver)[-2:] == ["old 1", "old 2"]
    if restart:
        driver.stop()
    new = HEADER + "".join(f"new {number}\n" for number in range(9))
    if same_inode:
        path.write_text(new)
    else:
        (tmp_path / "other").write_text(new)
        (tmp_path / "other").replace(path)
    if restart:
        driver = started(path, driver.offsets)
    assert read_all(driver)[-9:] == [f"new {number}" for number in range(9)]
    driver.stop()


def test_a_copy_is_known_by_what_was_read_last(tmp_path):
    """Of two rotated files with the same first bytes the right one is gone on with."""
    path = tmp_path / "in"
    path.write_text(HEADER + "a\n")
    driver = started(path)
    read_all(driver)
    driver.stop()
    (tmp_path / "in.2").write_text(HEADER + "b\nno line of the file that was read\n")
    (tmp_path / "in.1").write_text(HEADER + "a\nlast\n")
    path.write_text("new\n")
    again = started(path, driver.offsets)
    assert read_all(again) == ["last", "new"]
    again.stop()


def test_offsets_of_version_0_1_0_are_gone_on_from(tmp_path):
    path = tmp_path / "in"
    path.write_text("one\ntwo\nthree\n")
    driver = started(path)
    read_all(driver)
    driver.stop()
    (stored,) = driver.offsets._offsets.values()
    old = {name: json.loads(stored)[name] for name in ("inode", "head")}
    key = json.dumps({"filename": str(path)})
    driver.offsets._offsets[key] = json.dumps({**old, "position": 4})
    again = started(path, driver.offsets)
    assert read_all(again) == ["two", "three"]
    again.stop()
    assert json.loads(driver.offsets._offsets[key])["tail"].startswith("14:14:")


def test_every_offset_within_a_block_leads_on(tmp_path):
    path = tmp_path / "in"
    path.write_text("".join(f"{number}\n" for number in range(3000)))
    driver = started(path, **{"batch.size": "100"})
    records = driver.read(3000, deliver=False)
    driver.stop()
    for delivered in (1, 99, 100, 1500, 2999):
        offsets = StoredOffsets()
        offsets.keep(records[:delivered])
        again = started(path, offsets)
        assert [record.value for record in again.read(1)][:1] == [str(delivered)]
        again.stop()


def test_a_file_beside_it_is_not_read_for_its_name_alone(tmp_path):
    path = tmp_path / "part"
    path.write_text("one\n")
    driver = started(path)
    assert read_all(driver) == ["one"]
    (tmp_path / "part-1").write_text("of another file\n")
    (tmp_path / "new").write_text("two\n")
    (tmp_path / "new").replace(path)
    assert read_all(driver) == ["two"]
    driver.stop()
