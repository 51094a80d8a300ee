"""What the comparison with Kafka's Connect says about the copies it has watched."""

from typing import Any

import pytest

from benchmarks.connect import copies
from benchmarks.connect.__main__ import KAFKAS, OURS, OURS_ON_KAFKA, Row


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Worker:
    def check(self, name: str) -> None:
        raise RuntimeError(f"{name} failed")


def watched(monkeypatch: pytest.MonkeyPatch, seen: Any, begun: Any = None) -> float:
    clock = Clock()
    monkeypatch.setattr(copies, "time", clock)
    worker: Any = Worker()

    def after(look: Any) -> Any:
        return look and (lambda: look(clock.now - 100.0))

    return copies.rate(copies.Watch(worker, ["copy"]), 100, after(seen), after(begun))


def test_time_runs_from_the_first_record_seen_to_the_last(monkeypatch):
    # Nothing for a second; then 100 records in one second.
    rate = watched(monkeypatch, lambda now: 0 if now < 1 else min(100, int((now - 1) * 100)))
    assert rate == pytest.approx(100, rel=0.05)


def test_records_that_are_seen_all_at_once_count_from_the_beginning(monkeypatch):
    assert watched(monkeypatch, lambda now: 100 if now >= 0.5 else 0) == pytest.approx(
        200, rel=0.05
    )


def test_of_a_copy_through_a_topic_time_runs_from_the_first_record_in_the_topic(monkeypatch):
    # In the topic after half a second; shown in two steps, one and a half seconds later at the latest.
    rate = watched(
        monkeypatch, lambda now: (now >= 1) * 50 + (now >= 2) * 50, lambda now: now >= 0.5
    )
    assert rate == pytest.approx(100 / 1.5, rel=0.05)


def test_a_task_that_fails_ends_the_comparison(monkeypatch):
    with pytest.raises(RuntimeError, match="copy failed"):
        watched(monkeypatch, lambda now: 0)


def test_ratios_are_to_kafkas_own():
    row = Row("copy", {OURS: 3000.0, OURS_ON_KAFKA: 1000.0, KAFKAS: 2000.0})
    assert row.markdown() == "| copy | 3,000 | 1,000 | 2,000 | 1.50 | 0.50 |"


def test_lines_have_a_hundred_bytes():
    assert {len(line) + 1 for line in copies.lines(20)} == {copies.LINE_BYTES}
