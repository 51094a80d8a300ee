"""Share sessions: epochs, limits, and turns."""

import pytest

from strom.broker.share_sessions import SessionKey, ShareSessions
from strom.model.errors import ApiError, ErrorCode

ANN, BOB = SessionKey("g", "ann"), SessionKey("g", "bob")
T = b"t" * 16


def refused(call, *arguments) -> ErrorCode:
    with pytest.raises(ApiError) as error:
        call(*arguments)
    return error.value.code


def test_epochs_follow_each_other_and_wrap():
    sessions = ShareSessions(5)
    session = sessions.begin(ANN)
    assert sessions.go_on(ANN, 1) is session
    assert refused(sessions.go_on, ANN, 1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session.epoch = 2**31 - 1
    sessions.go_on(ANN, 2**31 - 1)
    assert session.epoch == 1


def test_there_are_only_so_many():
    sessions = ShareSessions(1)
    sessions.begin(ANN)
    assert refused(sessions.begin, BOB) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.begin(ANN)  # in place of its own
    sessions.end(ANN)
    sessions.begin(BOB)
    assert refused(sessions.end, ANN) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_lost_connection_ends_only_the_session_that_began_on_it():
    sessions = ShareSessions(5)
    old = sessions.begin(ANN)
    new = sessions.begin(ANN)
    assert not sessions.drop(old)
    assert new.is_open
    assert not old.is_open
    assert sessions.drop(new)
    assert not sessions.drop(new)


def test_a_new_session_knows_where_the_old_one_may_have_records():
    sessions = ShareSessions(5)
    sessions.begin(ANN).touched[T, 0] = None
    assert list(sessions.begin(ANN).touched) == [(T, 0)]


def test_every_partition_comes_first_in_its_turn():
    session = ShareSessions(5).begin(ANN)
    session.change([(T, 0), (T, 1), (T, 2)], [])
    firsts = set()
    for _ in range(3):
        firsts.add(session.turn()[0])
        assert sorted(session.turn()) == [(T, 0), (T, 1), (T, 2)]
        session.epoch += 1
    assert len(firsts) == 3
    session.change([], [(T, 0), (T, 1), (T, 2)])
    assert session.turn() == []
