"""Which failed tests get a second chance."""

import pytest

from tools.run_tests import MOST_CHANCES, may_have_another_chance

REAL = "tests/conformance/test_produce.py::test_it[kafka]"
OWN = "tests/storage/test_log.py::test_it"


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        ([REAL], True),
        ([REAL] * MOST_CHANCES, True),
        ([REAL] * (MOST_CHANCES + 1), False),
        ([OWN], False),
        ([REAL, OWN], False),
        ([], False),
    ],
)
def test_a_few_tests_with_other_programs_and_no_others(failed, expected):
    assert may_have_another_chance(failed) is expected
