"""Where a sink continues: at its own positions, at the group's, or at the beginning."""

from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

from strom.connect.api import ConnectError, RetriableError, TopicPartition
from strom.connect.runtime.sink_positions import SinkPositions

PLACE = TopicPartition("t", 0)
BEGINNING = confluent_kafka.OFFSET_BEGINNING


def session(committed: int = -1001, end: int | None = 10) -> Any:
    """What a run knows of the cluster; end None: the brokers do not respond."""

    def read_committed(native, timeout):
        for one in native:
            one.offset = committed
        return native

    def end_offset(partition):
        if end is None:
            raise RetriableError("no response")
        return end

    return SimpleNamespace(
        consumer=SimpleNamespace(committed=read_committed), end_offset=end_offset
    )


def start_of(positions, given, own=None, *, committed=True) -> int:
    [one] = positions.choose(given, [PLACE], own or {}, committed=committed)
    return int(one.offset)


@pytest.mark.parametrize(
    ("own", "committed", "expected"),
    [
        ({}, 4, 4),
        ({}, -1001, BEGINNING),
        ({PLACE: 7}, 4, 7),
        ({PLACE: 0}, 4, BEGINNING),
    ],
)
def test_the_tasks_own_position_takes_precedence(own, committed, expected):
    assert start_of(SinkPositions("c"), session(committed), own) == expected


def test_without_committed_offsets_the_consumer_finds_them_itself():
    positions = SinkPositions("c")
    assert start_of(positions, session(), committed=False) == confluent_kafka.OFFSET_INVALID


def test_a_recreated_topic_is_read_from_its_beginning_once():
    positions = SinkPositions("c")
    positions.note_recreated(PLACE)
    assert start_of(positions, session(committed=4)) == BEGINNING
    assert start_of(positions, session(committed=4)) == 4


def test_a_recreated_topic_that_is_forgotten_is_another_tasks():
    positions = SinkPositions("c")
    positions.note_recreated(PLACE)
    positions.forget_recreated()
    assert start_of(positions, session(committed=4)) == 4


def test_a_position_behind_the_end_is_refused_with_what_to_do():
    with pytest.raises(ConnectError, match=r"ends at 10.*DELETE /connectors/c/offsets"):
        start_of(SinkPositions("c"), session(), {PLACE: 11})


def test_a_position_of_the_topic_before_is_refused_until_the_task_has_another():
    positions = SinkPositions("c")
    positions.note_recreated(PLACE)
    for _ in range(2):
        with pytest.raises(ConnectError, match="deleted and recreated"):
            start_of(positions, session(), {PLACE: 3})
        positions.forget_recreated()
    with pytest.raises(RetriableError):
        start_of(positions, session(end=None), {PLACE: 3})
    assert start_of(positions, session(), {PLACE: 0}) == BEGINNING
    assert start_of(positions, session(), {PLACE: 3}) == 3


def test_a_position_that_cannot_be_checked_is_kept():
    assert start_of(SinkPositions("c"), session(end=None), {PLACE: 3}) == 3
