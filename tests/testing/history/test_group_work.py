"""Committed offsets and owners; and what is no offence."""

from dataclasses import replace

import pytest

from strom.testing.history import (
    Anomaly,
    Commit,
    OffsetFetch,
    Operation,
    Outcome,
    Owns,
    check_history,
)
from tests.testing.history.telling import KEY, OTHER, at_once, in_turn

FAILED, UNKNOWN = Outcome.FAILED, Outcome.UNKNOWN


def committed(process, offset, *, key=KEY, outcome=Outcome.OK, group="g"):
    return Operation(process, (Commit(group, key, offset),), outcome)


def told(process, offset, *, key=KEY, group="g"):
    return Operation(process, (OffsetFetch(group, key, offset),))


def owns(process, generation, *keys, group="g"):
    return Operation(process, tuple(Owns(group, generation, key) for key in keys))


BAD = {
    "an offset lower than the committed one": (
        Anomaly.OFFSET_WENT_BACK,
        in_turn(committed("c", 5), committed("c", 9), told("d", 5)),
    ),
    "no offset after a commit": (
        Anomaly.OFFSET_WENT_BACK,
        in_turn(committed("c", 5), told("d", None)),
    ),
    "less than someone was told before": (
        Anomaly.OFFSET_WENT_BACK,
        in_turn(
            committed("c", 5),
            committed("c", 9, outcome=UNKNOWN),
            told("d", 9),
            told("d", 5),
        ),
    ),
    "the offset of an aborted transaction": (
        Anomaly.ABORTED_OFFSET,
        in_turn(committed("c", 5), committed("c", 9, outcome=FAILED), told("d", 9)),
    ),
    "two owners in one generation": (
        Anomaly.TWO_OWNERS,
        in_turn(owns("a", 3, KEY, OTHER), owns("b", 3, OTHER)),
    ),
}

GOOD = {
    "the committed offset": in_turn(told("d", None), committed("c", 5), told("d", 5)),
    "an offset that was committed while one asked": at_once(committed("c", 5), told("d", None)),
    "a commit of unknown outcome, there or not": in_turn(
        committed("c", 5), committed("c", 9, outcome=UNKNOWN), told("d", 5), told("d", 9)
    ),
    "an aborted offset that was committed later": in_turn(
        committed("c", 9, outcome=FAILED), committed("c", 9), told("d", 9)
    ),
    "other groups and other partitions": in_turn(
        committed("c", 9), told("d", 1, key=OTHER), told("d", 1, group="h")
    ),
    "another owner in the next generation": in_turn(owns("a", 3, KEY), owns("b", 4, KEY)),
    "other partitions of the same generation": in_turn(owns("a", 3, KEY), owns("b", 3, OTHER)),
    "told again what one owns": in_turn(owns("a", 3, KEY), owns("a", 3, KEY)),
    "another group": in_turn(owns("a", 3, KEY), owns("b", 3, KEY, group="h")),
}


@pytest.mark.parametrize(("anomaly", "history"), BAD.values(), ids=BAD)
def test_it_is_found(anomaly, history):
    verdict = check_history(history)
    assert verdict.anomalies == {anomaly}, verdict.explain()


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_nothing_is_wrong_with(history):
    verdict = check_history(history)
    assert verdict.is_sound, verdict.explain()


def test_a_query_that_began_before_the_commit_was_acknowledged_may_see_less():
    commit, question = in_turn(committed("c", 5), told("d", None))
    assert not check_history([commit, question]).is_sound
    assert check_history([commit, replace(question, began=0)]).is_sound
