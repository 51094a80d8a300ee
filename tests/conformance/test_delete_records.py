"""DeleteRecords: the front of a log is given up, and stays given up."""

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import Record, batch, read_records
from tests.conformance.calls import (
    EARLIEST,
    LATEST,
    Topic,
    end_offset,
    fetch,
    list_offset,
    produce,
)
from tests.conformance.raw import RawClient

MakeTopic = Callable[..., Topic]
HIGH_WATERMARK = -1


def delete_before(
    client: RawClient, topic: Topic, offset: int, partition: int = 0
) -> tuple[ErrorCode, int]:
    """Delete records below an offset; gives the error code and the new start."""
    wanted = {"partition_index": partition, "offset": offset}
    answer = client.call(
        "delete_records",
        2,
        topics=[{"name": topic.name, "partitions": [wanted]}],
        timeout=10_000,
    )
    (found,) = answer.topics[0].partitions
    return found.error_code, found.low_watermark


@pytest.fixture
def filled(client: RawClient, make_topic: MakeTopic) -> Topic:
    """Two batches of three records, with the times 0 to 5."""
    topic = make_topic()
    for first in (0, 3):
        times = range(first, first + 3)
        produce(client, topic, batch(*(Record(b"x", timestamp_ms=time) for time in times)))
    return topic


def test_the_start_moves_even_into_a_batch(client: RawClient, filled: Topic) -> None:
    assert delete_before(client, filled, 2) == (ErrorCode.none, 2)
    assert list_offset(client, filled, EARLIEST).offset == 2
    below = fetch(client, filled, 1)
    assert below.error_code == ErrorCode.offset_out_of_range
    rest = fetch(client, filled, 2)
    assert (rest.error_code, rest.log_start_offset) == (ErrorCode.none, 2)
    offsets = [record.offset for record in read_records(rest.records)]
    assert [offset for offset in offsets if offset >= 2] == [2, 3, 4, 5]


def test_times_are_looked_for_from_the_new_start(client: RawClient, filled: Topic) -> None:
    delete_before(client, filled, 2)
    assert list_offset(client, filled, 0).offset == 2


def test_the_start_never_moves_back(client: RawClient, filled: Topic) -> None:
    delete_before(client, filled, 4)
    assert delete_before(client, filled, 1) == (ErrorCode.none, 4)


def test_everything_can_be_deleted_and_offsets_go_on(client: RawClient, filled: Topic) -> None:
    assert delete_before(client, filled, HIGH_WATERMARK) == (ErrorCode.none, 6)
    assert list_offset(client, filled, EARLIEST).offset == 6
    assert list_offset(client, filled, LATEST).offset == 6
    answer = produce(client, filled, batch(b"next"))
    assert (answer.base_offset, answer.log_start_offset) == (6, 6)


@pytest.mark.parametrize("offset", [7, -2])
def test_an_offset_outside_the_log_is_out_of_range(
    client: RawClient, filled: Topic, offset: int
) -> None:
    assert delete_before(client, filled, offset) == (ErrorCode.offset_out_of_range, -1)
    assert end_offset(client, filled) == 6


def test_unknown_topics_and_partitions(client: RawClient, filled: Topic) -> None:
    unknown = (ErrorCode.unknown_topic_or_partition, -1)
    assert delete_before(client, Topic("nowhere", None), 1) == unknown
    assert delete_before(client, filled, 1, partition=9) == unknown


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("compact", (ErrorCode.policy_violation, -1)),
        ("compact,delete", (ErrorCode.none, 1)),
    ],
)
def test_a_topic_that_is_only_compacted_deletes_nothing(
    client: RawClient, make_topic: MakeTopic, policy: str, expected: tuple[ErrorCode, int]
) -> None:
    topic = make_topic(configs={"cleanup.policy": policy})
    produce(client, topic, batch(Record(b"1", key=b"a"), Record(b"2", key=b"b")))
    assert delete_before(client, topic, 1) == expected
