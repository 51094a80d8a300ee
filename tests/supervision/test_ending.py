"""A program ends in time after a signal, whatever its main thread does, and its children with it."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from strom.supervision.ending import ENDED, ending_in_time

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are killed there")
PATIENCE_S = 60

PROGRAM = """
import signal, subprocess, sys, threading, time
from strom.supervision.ending import Terminated, ending_in_time
signal.signal(signal.SIGINT, signal.default_int_handler)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
def ready():
    print(child.pid, flush=True)
def be_deaf(handler=lambda *_: None):
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)
    ready()
    while True:
        time.sleep(600)
try:
    with ending_in_time({seconds}, "it took too long") as deadline:
        {waits}
except Terminated:
    sys.exit(143)
except KeyboardInterrupt:
    sys.exit(130)
"""


def ended(waits: str, seconds: float, number: int) -> tuple[int, str]:
    """The exit code and the standard error of a program that gets a signal; its child has ended too."""
    source = textwrap.dedent(PROGRAM).format(waits=waits, seconds=seconds)
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        child = int(process.stdout.readline())
        os.kill(child, signal.SIGSTOP)
        process.send_signal(number)
        try:
            code = process.wait(PATIENCE_S)
        finally:
            process.kill()
        deadline = time.monotonic() + PATIENCE_S
        while is_running(child):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return code, process.stderr.read().decode()


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_unwinds_the_main_thread(number, code):
    assert ended("ready(); threading.Event().wait()", 600, number) == (code, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_error_on_the_way_out_does_not_hide_the_signal(number, code):
    waits = """
        try:
            ready(); threading.Event().wait()
        finally:
            try:
                int("the connection is gone")
            except ValueError as error:
                raise OSError("cannot clean up") from error
    """
    assert ended(waits, 600, number) == (code, "")


def test_an_error_without_a_signal_is_raised():
    with pytest.raises(OSError, match="no disk"), ending_in_time(600, "it took too long"):
        raise OSError("no disk")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_main_thread_that_handles_no_signal_is_not_waited_for(number):
    assert ended("be_deaf()", 0.1, number) == (ENDED, "Error: it took too long\n")


def test_the_reason_is_shown_though_what_ends_has_redirected_the_output():
    waits = "import os; os.dup2(os.open(os.devnull, os.O_WRONLY), 2); be_deaf()"
    assert ended(waits, 0.1, signal.SIGTERM) == (ENDED, "Error: it took too long\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_message_that_is_not_read_does_not_delay_the_end(number):
    waits = """
        import os
        os.set_blocking(2, False)
        try:
            while os.write(2, b"x" * 4096):
                pass
        except BlockingIOError:
            os.set_blocking(2, True)
        be_deaf()
    """
    code, _ = ended(waits, 0.1, number)
    assert code == ENDED


def test_a_process_ends_although_its_children_cannot_be_found():
    waits = """
        import strom.supervision.ending as ending
        def fail():
            child.kill()
            raise OSError("no /proc")
        ending.kill_children = fail
        be_deaf()
    """
    code, _ = ended(waits, 0.1, signal.SIGTERM)
    assert code == ENDED


def test_a_process_may_be_given_less_time_than_it_had():
    waits = "be_deaf(lambda *_: deadline.end_within(0.1))"
    assert ended(waits, 600, signal.SIGTERM) == (ENDED, "Error: it took too long\n")


def test_a_signal_ends_nothing_when_all_has_ended():
    source = textwrap.dedent(PROGRAM).format(waits="ready()", seconds=0.05)
    source += (
        "signal.signal(signal.SIGTERM, lambda *_: None)\nsignal.raise_signal(signal.SIGTERM)\n"
    )
    source += "time.sleep(0.2); print(child.poll()); child.kill()"
    result = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, timeout=PATIENCE_S, check=True
    )
    assert result.stdout.split()[1:] == [b"None"]
