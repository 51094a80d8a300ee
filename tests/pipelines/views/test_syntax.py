import ast
import gc

import pytest

from strom.pipelines.views.syntax import parse


class ParsesAtItsEnd:
    """Garbage whose finalizer parses, as that of a failed future does to log its traceback."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.parse("f(" * 30 + ")" * 30)


@pytest.fixture
def frequent_collection():
    threshold = gc.get_threshold()
    gc.set_threshold(50, 2, 2)
    yield
    gc.set_threshold(*threshold)


def test_a_finalizer_that_parses_does_no_harm(frequent_collection):
    for _ in range(20):
        ParsesAtItsEnd()
        assert len(parse("x = [1, 2, (3, 4)]\n" * 100).body) == 100
    assert gc.isenabled()
