"""A judge that sees nothing proves nothing: each crime must be noticed."""

import pytest

from tests.crash.ledger import Ledger, Place


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    for value in (b"1", b"2", b"3"):
        ledger.note_sent(0, value)
    ledger.acked = {b"1": Place(0, 0), b"2": Place(0, 1)}
    return ledger


@pytest.mark.parametrize("found", [[b"1", b"2"], [b"1", b"2", b"3"]])
def test_records_in_doubt_may_be_there_or_not(ledger, found):
    ledger.check({0: found})


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([b"1"], "lost"),
        ([b"2", b"1"], "lost"),
        ([b"1", b"2", b"4"], "never sent"),
        ([b"1", b"2", b"2"], "twice"),
    ],
)
def test_crimes_are_noticed(ledger, found, verdict):
    with pytest.raises(AssertionError, match=verdict):
        ledger.check({0: found})


def test_a_wrong_order_is_noticed(ledger):
    ledger.acked = {b"2": Place(0, 0)}
    with pytest.raises(AssertionError, match="order"):
        ledger.check({0: [b"2", b"1"]})


def test_duplicates_are_forgiven_where_they_are_allowed(ledger):
    ledger.check({0: [b"1", b"2", b"2"]}, duplicates=True)
