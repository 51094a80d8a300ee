"""`strom run` ends on SIGTERM and Ctrl-C, though Spark or Kafka does not respond."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strom.model.errors import UserError
from strom.pipelines.spark.jars import cache_folder, connector_jars
from strom.pipelines.spark.java import java_home
from tools.kafka import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]
READY_S = 300
ENDED_S = 30
"""Generous: without the limits a run ends after minutes, or never."""
SETTINGS = """
name = "shop"
[kafka]
port = {kafka}
[serving]
port = {serving}
"""
VIEWS = """
CREATE STREAM clicks (page STRING, ms INT);
CREATE VIEW pages AS SELECT page, count(*) AS views FROM clicks GROUP BY page;
"""


class Run:
    """A run of a small project."""

    def __init__(self, folder: Path) -> None:
        ports = {"kafka": free_port(), "serving": free_port()}
        (folder / "strom.toml").write_text(SETTINGS.format(**ports))
        (folder / "views.sql").write_text(VIEWS)
        self._words = folder / "words"
        with self._words.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "strom", "run", "-p", str(folder)], stdout=file, stderr=file
            )
        self.children: set[int] = set()

    @property
    def words(self) -> str:
        return self._words.read_text()

    def until_ready(self) -> None:
        self._until(lambda: "Ctrl-C" in self.words)

    def child(self, program: str) -> int:
        """The process id of the child whose command contains `program`, as soon as there is one."""
        found: list[int] = []

        def look() -> bool:
            found[:] = [pid for pid in self._own() if program in command_of(pid)]
            return bool(found)

        self._until(look)
        return found[0]

    def _own(self) -> list[int]:
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        pids = [int(pid) for task in tasks for pid in task.read_text().split()]
        self.children.update(pids)
        return pids

    def _until(self, true) -> None:
        deadline = time.monotonic() + READY_S
        while not true():
            assert self.process.poll() is None, self.words
            assert time.monotonic() < deadline, self.words
            time.sleep(0.1)

    def ended(self, number: int) -> int:
        """Send a signal, and return the exit code."""
        self._own()
        self.process.send_signal(number)
        return self.process.wait(ENDED_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pid in self.children:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def everything_has_ended(run: Run) -> bool:
    deadline = time.monotonic() + ENDED_S
    while any(map(is_running, run.children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not any(map(is_running, run.children))


@pytest.fixture
def run(tmp_path):
    try:
        connector_jars(java_home(cache_folder()))
    except UserError as reason:
        pytest.skip(str(reason))
    started = Run(tmp_path)
    yield started
    started.close()


def test_a_run_ends_while_spark_and_kafka_do_not_respond(run):
    run.until_ready()
    for program in ("java", "until-stdin-ends"):
        os.kill(run.child(program), signal.SIGSTOP)
    time.sleep(1)  # so that threads wait for them
    assert run.ended(signal.SIGTERM) == 0, run.words
    assert everything_has_ended(run)
    assert run.words.splitlines()[-1] == "Stopped."
    assert "Traceback" not in run.words
    assert "killed" in run.words


def test_a_run_that_starts_ends_with_everything_that_it_has_started(run):
    os.kill(run.child("java"), signal.SIGSTOP)
    os.kill(run.child("until-stdin-ends"), signal.SIGSTOP)
    assert run.ended(signal.SIGTERM) == 143, run.words
    assert everything_has_ended(run)
    assert "Traceback" not in run.words
