"""A child that is kept running: restarted with backoff, reported, and stopped at once."""

import errno
import os
import queue
import signal
import subprocess
import sys
import time

import pytest

from strom.model.retries import RetryPolicy
from strom.supervision.child_process import ChildProcess, StartFailed
from strom.supervision.supervisor import Supervisor

READY = "print('{\"ready\": true}', flush=True)\n"
WAIT = "import signal; signal.pause()\n"
PATIENCE_S = 30
QUICK = RetryPolicy(0.01, 0.02)


class Supervised(Supervisor):
    """With its child at hand, and what it reports."""

    def __init__(self, program, policy, must_start):
        self.child = ChildProcess(
            "The child", [sys.executable, "-c", program], on_line=lambda _: None
        )
        self.reports: queue.Queue[str] = queue.Queue()
        super().__init__(
            self.child, self.reports.put, policy, must_start=must_start, chance=lambda: 0.0
        )


@pytest.fixture
def supervise():
    """Makes supervisors of a program's text; what they report is in `reports`."""
    made = []

    def make(program, policy=QUICK, *, must_start=False):
        one = Supervised(program, policy, must_start)
        made.append(one)
        one.start()
        return one

    yield make
    for one in made:
        one.stop()


def test_one_that_was_killed_comes_back(supervise):
    one = supervise(READY + WAIT)
    assert one.wait_ready(PATIENCE_S) == '{"ready": true}'
    first = one.child.pid
    os.kill(first, signal.SIGKILL)
    report = one.reports.get(timeout=PATIENCE_S)
    assert report == "The child exited with code -9. Restarting in 0.0 s."


def test_pauses_grow_while_it_ends_at_once(supervise):
    one = supervise("raise SystemExit('no port')", RetryPolicy(0.1, 0.4))
    with pytest.raises(StartFailed, match="exited with code 1 before it was ready: no port"):
        one.wait_ready(PATIENCE_S)
    reports = [one.reports.get(timeout=PATIENCE_S) for _ in range(3)]
    assert [report.partition("Restarting in ")[2] for report in reports] == [
        "0.1 s.",
        "0.2 s.",
        "0.4 s.",
    ]


def test_a_first_start_that_is_waited_for_is_reported_there_alone(supervise):
    one = supervise("raise SystemExit('Error: no port')", must_start=True)
    with pytest.raises(StartFailed, match=r"^The child could not be started: no port$"):
        one.wait_ready(PATIENCE_S)
    one._thread.join(PATIENCE_S)
    assert not one._thread.is_alive()
    assert one.reports.empty()


def test_one_that_cannot_be_started_now_is_started_later(supervise, monkeypatch):
    """A machine may be short of memory, processes or descriptors for a while."""
    shortages = [OSError(errno.EAGAIN, "Resource temporarily unavailable")] * 2
    started = subprocess.Popen

    def popen(*args, **extra):
        if shortages:
            raise shortages.pop()
        return started(*args, **extra)

    monkeypatch.setattr(subprocess, "Popen", popen)
    one = supervise(READY + WAIT)
    with pytest.raises(StartFailed, match="cannot be started: Resource temporarily unavailable"):
        one.wait_ready(PATIENCE_S)
    reports = [one.reports.get(timeout=PATIENCE_S) for _ in range(2)]
    assert all("Restarting in" in report for report in reports)
    while not one.child.is_running:
        time.sleep(0.01)


def test_a_stop_does_not_wait_for_the_pause(supervise):
    one = supervise("raise SystemExit(1)", RetryPolicy(3600, 3600))
    one.reports.get(timeout=PATIENCE_S)
    one.stop()
    assert one.reports.empty()


def test_a_stop_while_it_starts_is_a_stop(supervise):
    one = supervise(WAIT)
    one.stop()
    with pytest.raises(StartFailed):
        one.wait_ready(0)
    assert one.reports.empty()
