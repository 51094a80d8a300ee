"""Polls and sends that leap or go back; and what may."""

import pytest

from strom.testing.history import KAFKA_ALLOWS, Anomaly, Operation, Outcome, check_history
from tests.testing.history.telling import KEY, OTHER, at_once, in_turn, polled, sent, together

FAILED, UNKNOWN = Outcome.FAILED, Outcome.UNKNOWN
ALL = [sent("p", 1, 2, 3, at=0), polled("all", (0, 1), (1, 2), (2, 3))]

BAD = {
    "a poll that leaves a record out": (
        Anomaly.POLL_SKIP,
        in_turn(*ALL, polled("c", (0, 1)), polled("c", (2, 3))),
    ),
    "a poll that goes back": (
        Anomaly.NONMONOTONIC_POLL,
        in_turn(*ALL, polled("c", (0, 1), (1, 2)), polled("c", (0, 1))),
    ),
    "a poll that repeats": (
        Anomaly.NONMONOTONIC_POLL,
        in_turn(*ALL, polled("c", (0, 1)), polled("c", (0, 1))),
    ),
    "a leap within a poll": (
        Anomaly.POLL_SKIP_WITHIN,
        in_turn(*ALL, polled("c", (0, 1), (2, 3))),
    ),
    "a leap within a transaction that was aborted": (
        Anomaly.POLL_SKIP_WITHIN,
        in_turn(*ALL, polled("c", (0, 1), (2, 3), outcome=FAILED)),
    ),
    "going back within a poll": (
        Anomaly.NONMONOTONIC_POLL_WITHIN,
        in_turn(*ALL, polled("c", (1, 2), (0, 1))),
    ),
    "a repetition within a poll": (
        Anomaly.NONMONOTONIC_POLL_WITHIN,
        in_turn(*ALL, polled("c", (1, 2), (1, 2))),
    ),
    "a leap where only another partition was moved": (
        Anomaly.POLL_SKIP,
        in_turn(*ALL, polled("c", (0, 1)), polled("c", (2, 3), moved={OTHER})),
    ),
    "a later send that lies earlier": (
        Anomaly.NONMONOTONIC_SEND,
        in_turn(sent("p", 1, at=1), sent("p", 2, at=0), polled("c", (0, 2), (1, 1))),
    ),
    "a later send that lies earlier, both under way": (
        Anomaly.NONMONOTONIC_SEND,
        at_once(sent("p", 1, at=1), sent("p", 2, at=0), polled("c", (0, 2), (1, 1))),
    ),
    "a later send within a transaction that lies earlier": (
        Anomaly.NONMONOTONIC_SEND_WITHIN,
        in_turn(together("p", sent("p", 1, at=1), sent("p", 2, at=0)), polled("c", (0, 2), (1, 1))),
    ),
}

GOOD = {
    "reading on": in_turn(*ALL, polled("c", (0, 1)), polled("c", (1, 2), (2, 3))),
    "a start in the middle": in_turn(*ALL, polled("c", (1, 2), (2, 3))),
    "a seek back": in_turn(*ALL, polled("c", (1, 2)), polled("c", (0, 1), moved={KEY})),
    "a partition that was taken and given again between polls": in_turn(
        *ALL,
        polled("c", (0, 1)),
        Operation("c", (), moved=frozenset({KEY})),
        polled("c", (2, 3)),
    ),
    "a rebalance within a poll": in_turn(*ALL, polled("c", (2, 3), (0, 1), moved={KEY})),
    "going on after a rebalance within a poll": in_turn(
        *ALL, polled("c", (2, 3), (0, 1), moved={KEY}), polled("c", (1, 2))
    ),
    "going back after an aborted transaction": in_turn(
        *ALL, polled("c", (0, 1)), polled("c", (1, 2), outcome=FAILED), polled("c", (1, 2))
    ),
    "another consumer further behind": in_turn(*ALL, polled("c", (2, 3)), polled("d", (0, 1))),
    "a gap in which nobody knows of a record": in_turn(
        sent("p", 1, at=0), sent("p", 2, at=9), polled("c", (0, 1)), polled("c", (9, 2))
    ),
    "sends without offsets": in_turn(
        sent("p", 1),
        sent("p", 2),
        polled("c", (0, 2), (1, 1)),
    ),
    "sends of two producers": in_turn(
        sent("p", 1, at=1), sent("q", 2, at=0), polled("c", (0, 2), (1, 1))
    ),
    "a send that failed": in_turn(
        sent("p", 1, at=1), sent("p", 2, at=0, outcome=FAILED), polled("c", (1, 1))
    ),
    "records of others between those of a transaction": in_turn(
        sent("q", 9, at=1),
        together("p", sent("p", 1, at=0), sent("p", 2, at=2)),
        polled("c", (0, 1), (1, 9), (2, 2)),
    ),
}


@pytest.mark.parametrize(("anomaly", "history"), BAD.values(), ids=BAD)
def test_it_is_found(anomaly, history):
    verdict = check_history(history)
    assert verdict.anomalies == {anomaly}, verdict.explain()


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_nothing_is_wrong_with(history):
    verdict = check_history(history)
    assert verdict.is_sound, verdict.explain()


def test_records_of_others_between_those_of_a_transaction_are_reported_though_allowed():
    history = GOOD["records of others between those of a transaction"]
    assert check_history(history).counts[Anomaly.SEND_SKIP_WITHIN] == 1
    strict = check_history(history, allowed=KAFKA_ALLOWS - {Anomaly.SEND_SKIP_WITHIN})
    assert strict.anomalies == {Anomaly.SEND_SKIP_WITHIN}


def test_the_explanation_says_how_far():
    told = check_history(in_turn(*ALL, polled("c", (0, 1)), polled("c", (2, 3)))).explain()
    assert "c read clicks-0 up to offset 0 and continued at 2: 1 records between them" in told
