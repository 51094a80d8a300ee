"""ListOffsets: the first, the last, and the one at a time."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import Record, batch
from tests.conformance.calls import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Topic,
    list_offset,
    produce,
)
from tests.conformance.raw import RawClient

MakeTopic = Callable[..., Topic]
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
NOTHING = (-1, -1)


def found(answer: Any) -> tuple[int, int]:
    """The offset and the timestamp of an answer without error."""
    assert answer.error_code == ErrorCode.none
    return answer.offset, answer.timestamp


@pytest.fixture
def timed(client: RawClient, make_topic: MakeTopic) -> Topic:
    """Six records in three batches; times go up and down, the last batch is compressed."""
    topic = make_topic()
    for times, codec in (([1000, 3000, 2000], "none"), ([2500, 3000], "gzip"), ([5000], "lz4")):
        records = [Record(b"x" * 100, timestamp_ms=time) for time in times]
        assert produce(client, topic, batch(*records, codec=codec)).error_code == ErrorCode.none
    return topic


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (EARLIEST, (0, -1)),
        (LATEST, (0, -1)),
        (EARLIEST_LOCAL, (0, -1)),
        (MAX_TIMESTAMP, NOTHING),
        (LATEST_TIERED, NOTHING),
        (EARLIEST_PENDING_UPLOAD, NOTHING),
        (0, NOTHING),
        (1000, NOTHING),
    ],
)
def test_an_empty_partition(
    client: RawClient, make_topic: MakeTopic, timestamp: int, expected: tuple[int, int]
) -> None:
    assert found(list_offset(client, make_topic(), timestamp)) == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (EARLIEST, (0, -1)),
        (LATEST, (6, -1)),
        (EARLIEST_LOCAL, (0, -1)),
        (MAX_TIMESTAMP, (5, 5000)),
        (LATEST_TIERED, NOTHING),
        (0, (0, 1000)),
        (1000, (0, 1000)),
        (1001, (1, 3000)),
        (2500, (1, 3000)),
        (3000, (1, 3000)),
        (3001, (5, 5000)),
        (5000, (5, 5000)),
        (5001, NOTHING),
    ],
)
def test_the_first_record_that_is_not_older(
    client: RawClient, timed: Topic, timestamp: int, expected: tuple[int, int]
) -> None:
    assert found(list_offset(client, timed, timestamp)) == expected


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_time_is_found_inside_a_compressed_batch(
    client: RawClient, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic()
    records = [Record(b"x" * 100, timestamp_ms=time) for time in (10, 20, 30)]
    produce(client, topic, batch(*records, codec=codec))
    assert found(list_offset(client, topic, 15)) == (1, 20)
    assert found(list_offset(client, topic, MAX_TIMESTAMP)) == (2, 30)


def test_of_equal_max_timestamps_the_first_is_meant(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for _ in range(2):
        produce(client, topic, batch(Record(b"a", timestamp_ms=7), Record(b"b", timestamp_ms=7)))
    assert found(list_offset(client, topic, MAX_TIMESTAMP)) == (0, 7)


def test_with_append_time_the_max_timestamp_is_the_brokers(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(configs={"message.timestamp.type": "LogAppendTime"})
    answer = produce(client, topic, batch(b"a", b"b"))
    stamped_at = round(answer.log_append_time.timestamp() * 1000)
    assert found(list_offset(client, topic, MAX_TIMESTAMP)) == (0, stamped_at)
    assert found(list_offset(client, topic, stamped_at)) == (0, stamped_at)
    assert found(list_offset(client, topic, stamped_at + 1)) == NOTHING


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (-7, 11)],
)
def test_a_question_younger_than_the_version_is_unsupported(
    client: RawClient, timed: Topic, timestamp: int, version: int
) -> None:
    answer = list_offset(client, timed, timestamp, version=version)
    assert (answer.error_code, answer.offset) == (ErrorCode.unsupported_version, -1)


@pytest.mark.parametrize("version", [1, 5, 11])
def test_an_unknown_topic_or_partition(client: RawClient, timed: Topic, version: int) -> None:
    for topic, partition in ((Topic("nowhere", None), 0), (Topic("no name", None), 0), (timed, 9)):
        answer = list_offset(client, topic, LATEST, partition=partition, version=version)
        assert answer.error_code == ErrorCode.unknown_topic_or_partition
        assert answer.offset == -1


def test_the_leader_epoch_of_a_request_is_checked(client: RawClient, timed: Topic) -> None:
    assert found(list_offset(client, timed, LATEST, leader_epoch=0)) == (6, -1)
    newer = list_offset(client, timed, LATEST, leader_epoch=5)
    assert newer.error_code == ErrorCode.unknown_leader_epoch


def test_a_partition_may_be_asked_about_once_per_request(client: RawClient, timed: Topic) -> None:
    question = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}
    answer = client.call(
        "list_offsets",
        11,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": timed.name, "partitions": [question, question]}],
        timeout=1000,
    )
    codes = {one.error_code for one in answer.topics[0].partitions}
    assert codes == {ErrorCode.invalid_request}


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_without_transactions_both_isolation_levels_see_the_end(
    client: RawClient, timed: Topic, isolation_level: int
) -> None:
    question = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}
    answer = client.call(
        "list_offsets",
        11,
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[{"name": timed.name, "partitions": [question]}],
        timeout=1000,
    )
    assert found(answer.topics[0].partitions[0]) == (6, -1)
