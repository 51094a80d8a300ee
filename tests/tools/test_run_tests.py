"""How all tests are run, and which of those that failed run a second time."""

import sys
from pathlib import Path

import pytest

from tools.run_tests import MOST_RERUNS, RERUNS, ROOT, keep_bytecode, may_run_again

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


def test_bytecode_that_may_not_lie_beside_the_sources_is_kept_elsewhere():
    kept = keep_bytecode({"PYTHONDONTWRITEBYTECODE": "1", "LANG": "C"})
    assert kept == {"PYTHONPYCACHEPREFIX": str(Path(sys.prefix) / "bytecode"), "LANG": "C"}


@pytest.mark.parametrize("environment", [{}, {"PYTHONPYCACHEPREFIX": "/elsewhere"}])
def test_bytecode_that_is_kept_stays_where_it_is(environment):
    assert keep_bytecode(environment) == environment
