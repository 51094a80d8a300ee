"""Lost, doubled, mixed up, aborted and invented records; and what only looks so."""

import pytest

from strom.testing.history import KAFKA_ALLOWS, Anomaly, HistoryError, Outcome, check_history
from tests.testing.history.telling import KEY, OTHER, in_turn, polled, sent, together

FAILED, UNKNOWN = Outcome.FAILED, Outcome.UNKNOWN

BAD = {
    "a record between two that were read": (
        Anomaly.LOST_WRITE,
        in_turn(sent("p", 1, 2, 3, at=0), polled("c", (0, 1), (2, 3))),
    ),
    "the other half of a transaction of which one half was read": (
        Anomaly.LOST_WRITE,
        in_turn(
            sent("q", 9, at=5, key=OTHER),
            together("p", sent("p", 1, at=0), sent("p", 2, at=0, key=OTHER), outcome=UNKNOWN),
            polled("c", (0, 1)),
            polled("c", (5, 9), key=OTHER),
        ),
    ),
    "an acknowledged record that nobody ever read": (
        Anomaly.UNSEEN,
        in_turn(sent("p", 1, 2, at=0), polled("c", (0, 1))),
    ),
    "an acknowledged record without an offset that nobody ever read": (
        Anomaly.UNSEEN,
        in_turn(sent("p", 1), polled("c")),
    ),
    "one record at two offsets": (
        Anomaly.DUPLICATE,
        in_turn(sent("p", 1), polled("c", (0, 1), (1, 1))),
    ),
    "one record at two offsets, one of them told to the producer": (
        Anomaly.DUPLICATE,
        in_turn(sent("p", 1, at=1), polled("c", (0, 1))),
    ),
    "two records at one offset, for two readers": (
        Anomaly.INCONSISTENT_OFFSETS,
        in_turn(sent("p", 1), sent("p", 2), polled("c", (0, 1)), polled("d", (0, 2))),
    ),
    "two records at one offset, for a producer and a reader": (
        Anomaly.INCONSISTENT_OFFSETS,
        in_turn(sent("p", 1, at=0), sent("q", 2), polled("c", (0, 2))),
    ),
    "a record of an aborted transaction": (
        Anomaly.ABORTED_READ,
        in_turn(sent("p", 1, at=0, outcome=FAILED), polled("c", (0, 1))),
    ),
    "an aborted record that was sent again and lies elsewhere too": (
        Anomaly.ABORTED_READ,
        in_turn(
            sent("p", 1, at=0, outcome=FAILED),
            sent("p", 1, at=2),
            polled("c", (0, 1), (2, 1)),
        ),
    ),
    "a record that nobody sent": (Anomaly.INVENTED_READ, in_turn(polled("c", (0, 7)))),
    "a record of another partition": (
        Anomaly.INVENTED_READ,
        in_turn(sent("p", 1, at=0, key=OTHER), polled("c", (0, 1))),
    ),
    "one's own record before it is committed": (
        Anomaly.PRECOMMITTED_READ,
        in_turn(together("p", sent("p", 1, at=0), polled("p", (0, 1)))),
    ),
    "one's own record in a transaction that is aborted": (
        Anomaly.PRECOMMITTED_READ,
        in_turn(together("p", sent("p", 1, at=0), polled("p", (0, 1)), outcome=FAILED)),
    ),
}

GOOD = {
    "nothing at all": [],
    "everything read": in_turn(sent("p", 1, 2, 3, at=0), polled("c", (0, 1), (1, 2), (2, 3))),
    "gaps where markers and aborted records lie": in_turn(
        sent("p", 1, at=0),
        sent("q", 2, at=4),
        sent("q", 3, at=2, outcome=FAILED),
        polled("c", (0, 1), (4, 2)),
    ),
    "of unknown outcome and never seen": in_turn(
        sent("p", 1, at=0),
        sent("q", 2, at=1, outcome=UNKNOWN),
        sent("r", 3, at=2),
        polled("c", (0, 1), (2, 3)),
    ),
    "of unknown outcome and seen": in_turn(sent("p", 1, outcome=UNKNOWN), polled("c", (0, 1))),
    "failed and never seen": in_turn(sent("p", 1, outcome=FAILED)),
    "aborted, sent again and read once": in_turn(
        sent("p", 1, at=0, outcome=FAILED), sent("p", 1, at=2), polled("c", (2, 1))
    ),
    "sent again, where the first offset is not known": in_turn(
        sent("p", 1, outcome=UNKNOWN), sent("p", 1, at=2), polled("c", (2, 1))
    ),
    "read by one consumer only, by several polls": in_turn(
        sent("p", 1, 2, at=0), polled("c", (0, 1)), polled("c", (1, 2)), polled("d", (0, 1))
    ),
    "the same value in two partitions": in_turn(
        sent("p", 1, at=0),
        sent("p", 1, at=0, key=OTHER),
        polled("c", (0, 1)),
        polled("c", (0, 1), key=OTHER),
    ),
    "read by a transaction that was aborted, and then again": in_turn(
        sent("p", 1, at=0), polled("c", (0, 1), outcome=FAILED), polled("d", (0, 1))
    ),
    "read what another transaction sent, and sent oneself": in_turn(
        sent("p", 1, at=0),
        together("q", polled("q", (0, 1)), sent("q", 2, at=0, key=OTHER)),
        polled("c", (0, 2), key=OTHER),
    ),
}


@pytest.mark.parametrize(("anomaly", "history"), BAD.values(), ids=BAD)
def test_it_is_found(anomaly, history):
    verdict = check_history(history)
    assert anomaly in verdict.anomalies, verdict.explain()


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_nothing_is_wrong_with(history):
    verdict = check_history(history)
    assert verdict.is_sound, verdict.explain()


def test_a_finding_explains_itself():
    verdict = check_history(in_turn(sent("p", 1, 2, 3, at=0), polled("c", (0, 1), (2, 3))))
    (lost, skipped) = verdict.findings
    assert lost.anomaly is Anomaly.LOST_WRITE
    assert "2 was acknowledged in clicks-0 at offset 1" in lost.explanation
    assert [operation.process for operation in lost.operations] == ["p"]
    assert skipped.anomaly is Anomaly.POLL_SKIP_WITHIN
    assert str(lost) in verdict.explain()
    with pytest.raises(HistoryError, match="lost-write"):
        verdict.raise_if_wrong()


def test_what_is_allowed_is_found_but_not_held_against_the_history():
    history = in_turn(sent("p", 1, at=0))
    verdict = check_history(history, allowed=KAFKA_ALLOWS | {Anomaly.UNSEEN})
    assert verdict.is_sound
    assert verdict.counts[Anomaly.UNSEEN] == 1
    verdict.raise_if_wrong()


def test_of_many_findings_a_few_are_reported_and_all_are_counted():
    history = in_turn(*(sent("p", number, at=number) for number in range(500)))
    verdict = check_history(history)
    assert verdict.counts == {Anomaly.UNSEEN: 500}
    assert len(verdict.findings) == 20


def test_a_key_has_nothing_to_do_with_another():
    history = in_turn(
        sent("p", 1, 2, at=0), polled("c", (0, 1), (1, 2)), sent("p", 3, at=9, key=OTHER)
    )
    verdict = check_history(history)
    assert verdict.counts == {Anomaly.UNSEEN: 1}
    assert KEY not in verdict.explain()
