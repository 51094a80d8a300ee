"""The group reassigns partitions while a sink task gathers records."""

from types import SimpleNamespace
from typing import Any

import pytest

from strom.connect.runtime.sink_session import SinkSession


@pytest.mark.parametrize(
    ("is_reassigned", "expected"), [(False, ["first", "rest"]), (True, ["rest"])]
)
def test_what_was_polled_before_a_reassignment_is_given_up(is_reassigned, expected):
    """It is another task's now; put here, it could move a stored position past records before it."""

    def consume(count, seconds):
        if is_reassigned:
            session.assigned = []
        return ["rest"]

    session: Any = SimpleNamespace(
        consumer=SimpleNamespace(poll=lambda seconds: "first", consume=consume),
        task=SimpleNamespace(most_at_once=5),
        assigned=[],
    )
    assert SinkSession.consume(session, 0.1) == expected
