"""Calls in child processes: a call that exceeds a limit ends its child, and the next call succeeds."""

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


def test_a_child_that_was_killed_is_replaced(calls):
    with pytest.raises(CallFailed, match="killed"):
        calls.call("die")
    psutil.Process(calls.call("pid")).kill()
    calls._idle[0].wait()
    assert calls.call("chatter", "a") == ["a"]


def test_an_unexpected_error_is_raised_with_its_traceback(calls):
    with pytest.raises(RuntimeError, match="no such thing"):
        calls.call("fail")


def test_a_module_that_does_not_run_is_reported(monkeypatch):
    with pytest.raises(CallFailed, match="could not be started"):
        LimitedCalls("strom.no_such_module").call("pid")
