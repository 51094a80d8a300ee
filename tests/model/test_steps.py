"""Work in small steps, without a pause."""

from strom.model.steps import run_at_once


def test_all_steps_at_once_include_what_could_run_aside():
    def adding_up(numbers):
        total = 0
        for number in numbers:
            total += number
            yield None
        doubled = yield lambda: 2 * total
        return doubled

    assert run_at_once(adding_up([1, 2, 3])) == 12
