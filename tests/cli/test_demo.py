"""How `strom demo` starts, and ends when it is interrupted."""

import contextlib
import threading

import pytest

from strom.cli import demo


def test_ctrl_c_while_spark_starts_ends_the_demo_and_its_broker(monkeypatch, tmp_path):
    events = []

    @contextlib.contextmanager
    def log_of(_project):
        events.append("broker started")
        try:
            yield None
        finally:
            events.append("broker stopped")

    def spark_of(_project):
        # Python raises KeyboardInterrupt on the main thread only; on another, Spark starts to its end.
        assert threading.current_thread() is threading.main_thread()
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "opened", lambda folder: None)
    monkeypatch.setattr(demo, "log_of", log_of)
    monkeypatch.setattr(demo, "spark_of", spark_of)
    with pytest.raises(KeyboardInterrupt), demo._running(tmp_path):
        pass
    assert events == ["broker started", "broker stopped"]
