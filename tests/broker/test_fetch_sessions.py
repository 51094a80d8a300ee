import pytest

from strom.broker.fetch_sessions import MIN_EVICTION_MS, FetchSessions
from strom.broker.fetching import Fetched, TopicKey, WantedPartition
from strom.model.errors import ApiError, ErrorCode

KEY = TopicKey("t", None)


def want(partition: int, offset: int = 0) -> WantedPartition:
    return WantedPartition(KEY, partition, offset, 1000)


def quiet(wanted: WantedPartition, high_watermark: int = 5) -> Fetched:
    return Fetched(wanted, high_watermark=high_watermark, start_offset=0)


def test_an_incremental_answer_holds_only_news():
    sessions = FetchSessions(10)
    session = sessions.begin([want(0), want(1)], now_ms=0)
    assert session is not None
    first = session.news([quiet(item) for item in session.wanted()], full=True)
    assert len(first) == 2
    again = sessions.go_on(session.id, 1, now_ms=1)
    assert again.news([quiet(item) for item in again.wanted()], full=False) == []
    moved = [quiet(again.wanted()[0], high_watermark=6), quiet(again.wanted()[1])]
    assert again.news(moved, full=False) == moved[:1]


def test_errors_and_records_are_always_news():
    sessions = FetchSessions(10)
    session = sessions.begin([want(0)], now_ms=0)
    assert session is not None
    session.news([quiet(want(0))], full=True)
    failed = [Fetched(want(0), error=ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert session.news(failed, full=False) == failed
    assert session.news([quiet(want(0))], full=False), "being well again is news too"


def test_partitions_with_records_go_to_the_end_of_the_line():
    sessions = FetchSessions(10)
    session = sessions.begin([want(0), want(1), want(2)], now_ms=0)
    assert session is not None
    session.news([Fetched(want(0), records=b"x"), quiet(want(1)), quiet(want(2))], full=False)
    assert [item.partition for item in session.wanted()] == [1, 2, 0]


def test_partitions_can_be_added_changed_and_dropped():
    sessions = FetchSessions(10)
    session = sessions.begin([want(0), want(1)], now_ms=0)
    assert session is not None
    session.change([want(1, offset=9), want(2)], [(KEY, 0)])
    assert session.wanted() == [want(1, offset=9), want(2)]


def test_unknown_sessions_and_wrong_epochs_make_the_client_start_again():
    sessions = FetchSessions(10)
    session = sessions.begin([want(0)], now_ms=0)
    assert session is not None
    with pytest.raises(ApiError) as unknown:
        sessions.go_on(session.id + 1, 1, now_ms=0)
    assert unknown.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    with pytest.raises(ApiError) as wrong:
        sessions.go_on(session.id, 7, now_ms=0)
    assert wrong.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_in_use_is_not_thrown_out_but_a_forgotten_one_is():
    sessions = FetchSessions(1)
    first = sessions.begin([want(0)], now_ms=0)
    assert first is not None
    assert sessions.begin([want(0)], now_ms=MIN_EVICTION_MS - 1) is None
    assert sessions.begin([want(0)], now_ms=MIN_EVICTION_MS) is not None
    assert len(sessions) == 1


def test_no_slots_means_no_sessions():
    assert FetchSessions(0).begin([want(0)], now_ms=0) is None


def test_a_session_keeps_its_way_of_naming_topics_even_while_it_holds_none():
    key = TopicKey(None, bytes(16))
    session = FetchSessions(10).begin([WantedPartition(key, 0, 0, 1000)], now_ms=0)
    assert session is not None
    session.change([], [(key, 0)])
    assert session.wanted() == []
    assert session.uses_ids
