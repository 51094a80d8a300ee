"""Child processes: when they are ready, what is reported when they are not, and how they end."""

import io
import os
import signal
import subprocess
import sys
import tempfile
import threading

import psutil
import pytest

from strom.supervision.child_process import ChildProcess, StartFailed

READY = "print('{\"ready\": true}', flush=True)\n"
WAIT = "import signal; signal.pause()\n"
PATIENCE_S = 30


class OfText(ChildProcess):
    """Runs a program's text, and keeps its lines."""

    def __init__(self, program, **options):
        self.lines: list[str] = []
        command = [sys.executable, "-c", program]
        super().__init__("the child", command, on_line=self.lines.append, **options)


@pytest.fixture
def child():
    """Makes children of a program's text; their lines are in `lines`."""
    made = []

    def make(program, **options):
        made.append(OfText(program, **options))
        return made[-1]

    yield make
    for one in made:
        one.kill()


def test_it_is_ready_when_it_reports_so(child):
    one = child("print('imported a plugin')\n" + READY + "input()\nprint('later')")
    assert one.start(PATIENCE_S) == '{"ready": true}'
    assert one.is_running
    one._process.stdin.close()
    one.wait(PATIENCE_S)
    assert not one.is_running
    assert one.lines[0] == "imported a plugin"
    assert one.lines[-1].startswith("EOFError")


def test_a_traceback_that_ends_a_start_is_shown_once_and_its_last_line_reported(child):
    one = child("def bind(): raise OSError('no port')\nbind()")
    with pytest.raises(
        StartFailed, match=r"^the child exited with code 1 before it was ready: OSError: no port$"
    ):
        one.start(PATIENCE_S)
    assert one.lines[0].startswith("Traceback")
    assert one.lines.count("OSError: no port") == 1


def test_the_error_that_ends_a_start_is_reported_once(child):
    one = child("import sys\nprint('a warning', file=sys.stderr)\nsys.exit('Error: no port')")
    with pytest.raises(StartFailed, match=r"^the child could not be started: no port$"):
        one.start(PATIENCE_S)
    assert one.lines == ["a warning"]


def test_a_later_error_is_passed_on(child):
    one = child(READY + "import sys\nsys.stdin.read()\nsys.exit('Error: disk full')")
    one.start(PATIENCE_S)
    one._process.stdin.close()
    one.wait(PATIENCE_S)
    assert one.lines == ["Error: disk full"]


def test_only_the_last_life_is_reported_from_a_file(child):
    with tempfile.TemporaryFile("a+b") as file:
        one = child("import sys\nprint(id(sys), file=sys.stderr)\nsys.exit('no')", stderr=file)
        for _ in range(2):
            with pytest.raises(StartFailed) as failed:
                one.start(PATIENCE_S)
            assert str(failed.value).count("no") == 1, failed.value


def test_one_that_is_never_ready_is_stopped(child):
    one = child(WAIT)
    with pytest.raises(StartFailed, match=r"not ready after 0\.1 s"):
        one.start(0.1)
    assert not one.is_running


def test_more_output_than_a_pipe_holds_does_not_stop_it(child):
    noise = "import sys\nfor _ in range(20000): print('x' * 50); print('y' * 50, file=sys.stderr)\n"
    one = child(noise + READY + WAIT)
    one.start(PATIENCE_S)
    one.kill()
    assert len(one.lines) == 40000


def test_one_that_ignores_the_request_to_stop_is_killed(child):
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    one = child(deaf + READY + WAIT, stop_s=0.1)
    one.start(PATIENCE_S)
    assert one.stop() == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be stopped there")
def test_one_that_was_suspended_stops_cleanly(child):
    polite = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
    one = child(polite + READY + WAIT)
    one.start(PATIENCE_S)
    os.kill(one.pid, signal.SIGSTOP)
    assert one.stop() == 5


def test_a_clean_stop_is_not_cut_short_by_the_end_of_the_lifeline(child):
    program = (
        "import os, signal, sys, threading\n"
        "def stop(*_):\n"
        "    ended = threading.Event()\n"
        "    threading.Thread(target=lambda: (os.read(0, 1), ended.set()), daemon=True).start()\n"
        "    sys.exit(5 if not ended.wait(0.3) else 6)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
    )
    one = child(program + READY + WAIT)
    one.start(PATIENCE_S)
    assert one.stop() == 5, "standard input ended while it was stopping"


def test_the_exit_code_is_there_until_it_is_stopped(child):
    one = child(READY + "raise SystemExit(7)")
    one.start(PATIENCE_S)
    assert one.wait(PATIENCE_S) == one.exit_code == 7
    assert one.stop() == 7
    assert one.exit_code is None


def test_after_close_no_start_succeeds(child):
    one = child(READY + WAIT)
    one.close()
    with pytest.raises(StartFailed, match="stopped before it was started"):
        one.start(PATIENCE_S)


def test_a_start_can_be_stopped_by_another_thread(child):
    one = child(WAIT)
    one.launch()
    threading.Thread(target=one.close).start()
    with pytest.raises(StartFailed):
        one.wait_ready(PATIENCE_S)


def test_a_reader_of_lines_that_is_gone_does_no_harm(monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    one = ChildProcess("the child", [sys.executable, "-c", "print('x')\n" + READY])
    assert one.start(PATIENCE_S)
    one.stop()


PARENT = """
import sys, threading
from strom.supervision.child_process import ChildProcess
child = ChildProcess("the child", [sys.executable, "-c", sys.argv[1]])
# In a thread that ends: the child belongs to the process.
thread = threading.Thread(target=child.start)
thread.start()
thread.join()
print(child.pid, flush=True)
threading.Event().wait()
"""
CHILD = """
import signal
from strom.supervision.lifeline import end_with_parent
end_with_parent(lambda: print("the reader of this is gone", flush=True))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_parent_even_by_kill_9(how):
    command = [sys.executable, "-c", PARENT, CHILD + READY + WAIT]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        orphan = psutil.Process(int(parent.stdout.readline()))
        assert orphan.is_running()
        os.kill(parent.pid, how)
        parent.wait(PATIENCE_S)
    orphan.wait(PATIENCE_S)
