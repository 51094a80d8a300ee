"""Work in small steps: in slices, or at once."""

import pytest

from strom.model import steps as slicing
from strom.model.steps import Ended, run_at_once, run_slice


def adding_up(numbers):
    total = 0
    for number in numbers:
        total += number
        yield None
    doubled = yield lambda: 2 * total
    return doubled


def test_all_steps_at_once_include_what_could_run_aside():
    assert run_at_once(adding_up([1, 2, 3])) == 12


def test_a_slice_ends_when_its_time_is_up_and_the_next_one_continues(monkeypatch):
    monkeypatch.setattr(slicing, "SLICE_SECONDS", 0)
    work = adding_up([1, 2])
    assert run_slice(work) is None
    assert run_slice(work) is None
    aside = run_slice(work)
    assert callable(aside)
    assert run_slice(work, aside()) == Ended(6)


def test_short_work_takes_one_slice(monkeypatch):
    monkeypatch.setattr(slicing, "SLICE_SECONDS", 60)
    work = adding_up(range(1000))
    assert run_slice(work)() == 2 * sum(range(1000))


def test_work_that_fails_fails_its_slice():
    def failing():
        yield None
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        run_slice(failing())
