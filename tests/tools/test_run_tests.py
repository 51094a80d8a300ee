"""Which failed tests run a second time."""

import pytest

from tools.run_tests import MOST_RERUNS, RERUNS, ROOT, may_run_again

LISTED = f"{next(iter(RERUNS))}::test_it[kafka]"
OTHER = "tests/storage/test_log.py::test_it"


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        ([LISTED], True),
        ([LISTED] * MOST_RERUNS, True),
        ([LISTED] * (MOST_RERUNS + 1), False),
        ([OTHER], False),
        ([LISTED, OTHER], False),
        ([], False),
    ],
)
def test_a_few_tests_that_are_listed_and_no_others(failed, expected):
    assert may_run_again(failed) is expected


@pytest.mark.parametrize("listed", RERUNS)
def test_every_listed_test_exists(listed):
    file, _, function = listed.partition("::")
    assert f"def {function}" in (ROOT / file).read_text()
