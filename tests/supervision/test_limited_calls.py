"""Calls in child processes: a call that exceeds a limit ends its child, and the next call succeeds."""

import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from strom.supervision.limited_calls import CallFailed, CallLimits, LimitedCalls, LimitExceeded

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024 * 1024


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = LimitedCalls(
        "tests.supervision.limited_program", CallLimits(cpu_s=0.3, memory_bytes=400 * MIB)
    )
    yield found
    found.close()


def test_a_call_returns_what_the_function_returns(calls):
    text = 'a\n"ü"\ud800' * 100_000
    assert calls.call("chatter", text) == [text]


def test_a_child_is_used_again_and_ends_at_the_close(calls):
    pid = calls.call("pid")
    assert calls.call("pid") == pid
    calls.close()
    assert not psutil.pid_exists(pid)


def test_a_call_that_takes_too_long_is_ended(calls):
    first = calls.call("pid")
    with pytest.raises(LimitExceeded, match="CPU time"):
        calls.call("turn_for_ever")
    assert not psutil.pid_exists(first)
    assert calls.call("pid") != first


def test_a_call_that_takes_too_much_memory_is_ended(calls):
    with pytest.raises(LimitExceeded, match="memory"):
        calls.call("take", 500 * MIB)
    assert calls.call("take", MIB) == MIB


def test_a_crash_is_an_exceeded_limit(calls):
    with pytest.raises(LimitExceeded):
        calls.call("abort")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"])
def test_a_child_that_was_asked_to_end_has_exceeded_no_limit(calls, name):
    with pytest.raises(CallFailed, match=f"ended by {name}"):
        calls.call("die", name)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGBUS", "SIGXCPU"])
def test_a_signal_of_the_call_itself_is_an_exceeded_limit(calls, name):
    with pytest.raises(LimitExceeded):
        calls.call("die", name)


def test_a_child_that_was_killed_is_replaced(calls):
    with pytest.raises(CallFailed, match="ended by SIGKILL"):
        calls.call("die", "SIGKILL")
    psutil.Process(calls.call("pid")).kill()
    calls._idle[0].wait()
    assert calls.call("chatter", "a") == ["a"]


def test_an_unexpected_error_is_raised_with_its_traceback(calls):
    with pytest.raises(RuntimeError, match="no such thing"):
        calls.call("fail")


def test_a_module_that_does_not_run_is_reported_and_logged(caplog):
    with pytest.raises(CallFailed, match="exit code 1"):
        LimitedCalls("strom.no_such_module").call("pid")
    assert "strom.no_such_module" in caplog.text


def test_a_hard_limit_below_that_of_the_calls_is_kept(calls):
    """Without the right to raise it, and without a right to exceed it."""
    hard = 300 * MIB
    pid = calls.call("pid")
    psutil.Process(pid).rlimit(psutil.RLIMIT_AS, (hard, hard))
    assert calls.call("memory_limits") == [hard, hard]


def test_the_hard_limit_is_not_changed(calls):
    assert calls.call("memory_limits")[1] == resource.getrlimit(resource.RLIMIT_AS)[1]
    psutil.Process(calls.call("pid")).rlimit(psutil.RLIMIT_AS, (500 * MIB, 500 * MIB))
    assert calls.call("memory_limits") == [400 * MIB, 500 * MIB]


def test_busy_children_end_at_the_close(calls):
    with ThreadPoolExecutor(1) as threads:
        busy = threads.submit(calls.call, "wait")
        while not calls._busy and not busy.done():
            time.sleep(0.01)
        (child,) = calls._busy
        calls.close()
        with pytest.raises(CallFailed):
            busy.result(30)
    assert not psutil.pid_exists(child.pid)
    with pytest.raises(CallFailed, match="closed"):
        calls.call("pid")
