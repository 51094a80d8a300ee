"""Patterns: files of their own are distinguished from rotated generations, whatever their names."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from strom.connect.connectors.files import matching, source
from strom.connect.connectors.files.generations import Generation, Generations
from strom.connect.connectors.files.source import FileStreamSource
from strom.testing.connectors import SourceDriver, StoredOffsets


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(source, "IDLE_S", 0)
    monkeypatch.setattr(source, "LOOK_FOR_FILES_S", 0)


class Folder:
    """A folder that a connector reads by a pattern, with stops and starts."""

    def __init__(self, path: Path, pattern: str = "*", tasks: int = 1) -> None:
        self.path = path
        self._settings = {"file": str(path / pattern), "topic": "t"}
        self._tasks = tasks
        self.offsets = StoredOffsets()
        self.start()

    def start(self) -> None:
        self._driver = SourceDriver(
            FileStreamSource, self._settings, self.offsets, max_tasks=self._tasks
        )
        self._driver.start()

    def stop(self) -> None:
        self._driver.stop()

    def restart(self) -> None:
        self.stop()
        self.start()

    def write(self, name: str, text: str) -> None:
        with (self.path / name).open("a") as file:
            file.write(text)

    def read(self) -> list[str]:
        """All new lines, sorted."""
        found, empty = [], 0
        while empty < 6:
            records = self._driver.poll()
            self.offsets.keep(records)
            found += [record.value for record in records]
            empty = 0 if records else empty + 1
        return sorted(found)


@pytest.fixture(params=[1, 3])
def folder(tmp_path, request):
    made = Folder(tmp_path, tasks=request.param)
    yield made
    made.stop()


def test_files_with_names_like_rotated_ones_are_read(folder):
    names = ["part", "part-1", "part-2", "part.3", "part.old", "part-2026-11-15"]
    for name in names:
        folder.write(name, f"{name}\n")
    (folder.path / "part-4.gz").write_bytes(gzip.compress(b"part-4.gz\n"))
    assert folder.read() == sorted([*names, "part-4.gz"])
    for name in names:
        folder.write(name, f"more of {name}\n")
    folder.restart()
    assert folder.read() == sorted(f"more of {name}" for name in names)
    folder.write("part-9", "new\n")
    folder.write("part", "last\n")
    assert folder.read() == ["last", "new"]


def test_the_folder_is_not_listed_for_each_of_its_files(tmp_path, monkeypatch):
    listings = []
    rotated = Generations._rotated

    def counted(self):
        listings.append(self.path)
        return rotated(self)

    monkeypatch.setattr(Generations, "_rotated", counted)
    folder = Folder(tmp_path)
    names = ["part", *(f"part-{number}" for number in range(60))]
    for name in names:
        folder.write(name, f"{name}\n")
    assert folder.read() == sorted(names)
    folder.restart()
    for name in names:
        folder.write(name, f"more of {name}\n")
    assert folder.read() == sorted(f"more of {name}" for name in names)
    folder.stop()
    assert len(listings) < 10


def test_those_that_are_there_before_the_first_of_them_stay_files_of_their_own(folder):
    folder.write("part-1", "1\n")
    assert folder.read() == ["1"]
    folder.write("part", "0\n")
    folder.write("part-1", "1 again\n")
    assert folder.read() == ["0", "1 again"]
    folder.restart()
    folder.write("part-1", "1 at last\n")
    assert folder.read() == ["1 at last"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_renamed_file_is_read_to_its_end_and_not_again(folder, restart):
    folder.write("app.log", "one\n")
    assert folder.read() == ["one"]
    if restart:
        folder.stop()
    folder.write("app.log", "two\n")
    (folder.path / "app.log").rename(folder.path / "app.log.1")
    if restart:
        folder.start()
    assert folder.read() == ["two"]  # while there is no new one
    folder.write("app.log.1", "three\n")
    folder.write("app.log", "four\n")
    assert folder.read() == ["four", "three"]
    folder.restart()
    assert folder.read() == []
    (folder.path / "app.log.1").rename(folder.path / "app.log.2")
    (folder.path / "app.log").rename(folder.path / "app.log.1")
    folder.write("app.log", "five\n")
    assert folder.read() == ["five"]


def test_all_that_was_rotated_while_no_task_ran_is_read_once(folder):
    folder.write("app.log", "one\n")
    assert folder.read() == ["one"]
    folder.stop()
    for number in (2, 3):
        if (folder.path / "app.log.1").exists():
            (folder.path / "app.log.1").rename(folder.path / "app.log.2")
        (folder.path / "app.log").rename(folder.path / "app.log.1")
        folder.write("app.log", f"{number}\n")
        os.utime(folder.path / "app.log", (1_900_000_000 + number, 1_900_000_000 + number))
    folder.start()
    assert folder.read() == ["2", "3"]
    folder.restart()
    assert folder.read() == []


def test_old_generations_are_files_of_their_own_until_the_file_is_rotated_again(folder):
    """They match the pattern, and nothing of them was ever read."""
    for name, time in (("app.log.2", 100), ("app.log.1", 200), ("app.log", 300)):
        folder.write(name, f"of {name}\n")
        os.utime(folder.path / name, (time, time))
    assert folder.read() == ["of app.log", "of app.log.1", "of app.log.2"]
    for number in (2, 1):
        (folder.path / f"app.log.{number}").rename(folder.path / f"app.log.{number + 1}")
    (folder.path / "app.log").rename(folder.path / "app.log.1")
    folder.write("app.log", "new\n")
    assert folder.read() == ["new"]
    folder.restart()
    assert folder.read() == []


def test_what_was_begun_as_a_file_of_its_own_is_finished_after_a_rotation(folder):
    folder.write("app.log", "app\n")
    folder.write("app.log.1", "before\n")
    assert folder.read() == ["app", "before"]
    folder.stop()
    folder.write("app.log.1", "the rest\n")
    (folder.path / "app.log.1").rename(folder.path / "app.log.2")
    (folder.path / "app.log").rename(folder.path / "app.log.1")
    folder.write("app.log", "new\n")
    folder.start()
    assert folder.read() == ["new", "the rest"]
    folder.restart()
    assert folder.read() == []


@pytest.mark.parametrize("restart", [False, True])
def test_a_copied_and_cut_file_is_gone_on_with_in_its_copy(folder, restart):
    folder.write("app.log", "one\n")
    assert folder.read() == ["one"]
    if restart:
        folder.stop()
    folder.write("app.log", "two\n")
    shutil.copyfile(folder.path / "app.log", folder.path / "app.log.1")
    os.truncate(folder.path / "app.log", 0)
    folder.write("app.log", "three\n")
    if restart:
        folder.start()
    assert folder.read() == ["three", "two"]
    folder.restart()
    assert folder.read() == []


def test_a_copy_is_waited_for_until_the_original_is_cut(folder, monkeypatch):
    monkeypatch.setattr(matching, "COPYING_S", 3600)
    folder.write("app.log", "one\ntwo\n")
    assert folder.read() == ["one", "two"]
    folder.write("app.log.1", "one\n")  # half of the copy
    assert folder.read() == []
    folder.write("app.log.1", "two\n")
    assert folder.read() == []
    os.truncate(folder.path / "app.log", 0)
    folder.write("app.log", "three\n")
    assert folder.read() == ["three"]


def test_a_file_with_the_same_text_is_a_file_of_its_own_after_a_while(folder, monkeypatch):
    monkeypatch.setattr(matching, "COPYING_S", 3600)
    folder.write("part", "same\n")
    assert folder.read() == ["same"]
    folder.write("part-1", "same\n")
    assert folder.read() == []
    monkeypatch.setattr(matching, "COPYING_S", -1)
    assert folder.read() == ["same"]
    folder.restart()
    assert folder.read() == []


def test_files_that_version_0_1_0_read_as_generations_are_not_read_again(folder):
    folder.write("app.log.1", "read before\n")
    folder.write("app.log", "one\n")
    path = folder.path / "app.log"
    read = Folder(folder.path, "app.log")
    read.read()
    read.stop()
    (stored,) = read.offsets._offsets.values()
    old = {name: json.loads(stored)[name] for name in ("position", "inode", "head")}
    folder.offsets._offsets[json.dumps({"filename": str(path)})] = json.dumps(old)
    folder.write("app.log", "two\n")
    assert folder.read() == ["two"]
    folder.restart()
    assert folder.read() == []


@pytest.mark.parametrize("old", [False, True])
def test_a_file_is_read_that_has_got_the_inode_of_one_that_is_gone(folder, old):
    folder.write("part", "first\n")
    assert folder.read() == ["first"]
    folder.stop()
    (folder.path / "part").unlink()
    folder.write("part-1", "second\n")
    key = json.dumps({"filename": str(folder.path / "part")})
    offset = json.loads(folder.offsets._offsets[key])
    offset["inode"] = (folder.path / "part-1").stat().st_ino
    if old:  # by version 0.1.0
        del offset["tail"]
    folder.offsets._offsets[key] = json.dumps(offset)
    folder.start()
    assert folder.read() == ["second"]
    folder.restart()
    assert folder.read() == []


def test_the_number_of_files_that_are_opened_grows_with_the_number_of_new_ones(
    tmp_path, monkeypatch
):
    """Not with its square: each is compared with the first one only."""
    opened = 0
    usual = Generation.__init__

    def counting(generation, path):
        nonlocal opened
        opened += 1
        usual(generation, path)

    monkeypatch.setattr(Generation, "__init__", counting)
    (tmp_path / "part").write_text("first\n")
    folder = Folder(tmp_path)
    assert folder.read() == ["first"]
    for number in range(60):
        (tmp_path / f"part-{number}").write_text(f"{number}\n")
    assert len(folder.read()) == 60
    assert opened <= 60 * 10
    opened = 0
    folder.read()
    assert opened == 0
    folder.stop()


STEPS = ["write", "part", "read", "rename", "copy_and_cut", "compress", "restart"]


@examples(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.sampled_from(STEPS), max_size=20),
    tasks=st.sampled_from([1, 2]),
    most_open=st.sampled_from([0, 50]),
    shifts=st.booleans(),
)
def test_every_line_is_read_once(tmp_path_factory, steps, tasks, most_open, shifts):
    """A rotated file and files of their own beside it."""
    path = tmp_path_factory.mktemp("families")
    usual, source.MOST_OPEN = source.MOST_OPEN, most_open
    folder = Folder(path, tasks=tasks)
    try:
        play(folder, steps, shifts=shifts)
    finally:
        source.MOST_OPEN = usual
        folder.stop()
        shutil.rmtree(path)


class Log:
    """A file that is written and rotated, and files of their own beside it."""

    def __init__(self, folder: Folder, *, shifts: bool) -> None:
        """`shifts`: the newest rotated file is always `app.log.1`; else names stay."""
        self._folder = folder
        self._shifts = shifts
        self._rotations = 0
        self.written = 0

    def write(self, name: str = "app.log") -> None:
        self._folder.write(name, f"line {self.written:04}\n")
        self.written += 1
        now = 1_700_000_000 + self.written
        os.utime(self._folder.path / name, (now, now))

    def part(self) -> None:
        self.write(f"part-{self.written}")

    def rename(self) -> None:
        (self._folder.path / "app.log").rename(self._rotated())
        self.write()

    def copy_and_cut(self) -> None:
        log, rotated = self._folder.path / "app.log", self._rotated()
        shutil.copyfile(log, rotated)
        shutil.copystat(log, rotated)
        os.truncate(log, 0)
        self.write()

    def compress(self) -> None:
        for plain in self._folder.path.glob("app.log.????"):
            packed = plain.with_name(plain.name + ".gz")
            packed.write_bytes(gzip.compress(plain.read_bytes()))
            shutil.copystat(plain, packed)
            plain.unlink()

    def _rotated(self) -> Path:
        self._rotations += 1
        path = self._folder.path
        if not self._shifts:
            return path / f"app.log.{self._rotations:04}"
        for number in range(self._rotations, 0, -1):
            for end in ("", ".gz"):
                old = path / f"app.log.{number:04}{end}"
                if old.exists():
                    old.rename(path / f"app.log.{number + 1:04}{end}")
        return path / "app.log.0001"


def play(folder: Folder, steps: list[str], *, shifts: bool) -> None:
    log = Log(folder, shifts=shifts)
    log.write()
    found = folder.read()
    for step in steps:
        if step == "read":
            found += folder.read()
        else:
            getattr(folder if step == "restart" else log, step)()
    log.write()
    found += folder.read()
    assert sorted(found) == [f"line {number:04}" for number in range(log.written)]
