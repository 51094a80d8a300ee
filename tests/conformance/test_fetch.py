"""Fetch: what is returned, how much of it, and when."""

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import batch, read_batches, read_records
from tests.conformance.calls import Topic, fetch, fetch_fields, produce
from tests.conformance.raw import RawClient
from tests.conftest import Target

MakeTopic = Callable[..., Topic]
PAIR = batch(b"x" * 100, b"y" * 100)
LONG_MS = 20_000
"""A wait that no test sits out."""
BATCHES = 5
END = 2 * BATCHES


@pytest.fixture
def filled(client: RawClient, make_topic: MakeTopic) -> Topic:
    """Two partitions with five batches of two records in each."""
    topic = make_topic(2)
    for partition in (0, 1):
        for _ in range(BATCHES):
            produce(client, topic, PAIR, partition=partition)
    return topic


def test_a_fetch_begins_with_the_batch_that_holds_the_offset(
    client: RawClient, filled: Topic
) -> None:
    answer = fetch(client, filled, 3)
    assert [record.offset for record in read_records(answer.records)] == list(range(2, END))
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (
        END,
        END,
        0,
    )
    assert answer.preferred_read_replica == -1


@pytest.mark.parametrize("version", [4, 12, 18])
def test_at_the_end_there_is_nothing_yet(client: RawClient, filled: Topic, version: int) -> None:
    answer = fetch(client, filled, END, version=version)
    assert (answer.error_code, answer.records) == (ErrorCode.none, b"")
    assert answer.high_watermark == END


def test_an_empty_partition_has_nothing(client: RawClient, make_topic: MakeTopic) -> None:
    answer = fetch(client, make_topic(), 0)
    assert (answer.error_code, answer.high_watermark, answer.records) == (ErrorCode.none, 0, b"")


@pytest.mark.parametrize("offset", [END + 1, -1, 2**62])
@pytest.mark.parametrize("version", [4, 12, 18])
def test_an_offset_outside_the_log_is_out_of_range(
    client: RawClient, filled: Topic, offset: int, version: int
) -> None:
    answer = fetch(client, filled, offset, version=version)
    assert (answer.error_code, answer.records) == (ErrorCode.offset_out_of_range, b"")
    assert (answer.high_watermark, answer.last_stable_offset) == (-1, -1)


@pytest.mark.parametrize("name", ["nowhere", "not a name"])
def test_an_unknown_name(client: RawClient, name: str) -> None:
    answer = fetch(client, Topic(name, None))
    assert answer.error_code == ErrorCode.unknown_topic_or_partition
    assert (answer.high_watermark, answer.records) == (-1, b"")


@pytest.mark.parametrize("topic_id", [None, uuid4()], ids=["zero", "random"])
@pytest.mark.parametrize("version", [13, 18])
def test_an_unknown_topic_id(client: RawClient, topic_id: Any, version: int) -> None:
    answer = fetch(client, Topic("", topic_id), version=version)
    assert answer.error_code == ErrorCode.unknown_topic_id


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_an_unknown_partition(client: RawClient, filled: Topic, version: int) -> None:
    answer = fetch(client, filled, partition=7, version=version)
    assert answer.error_code == ErrorCode.unknown_topic_or_partition


def test_the_leader_epoch_of_a_request_is_checked(client: RawClient, filled: Topic) -> None:
    assert fetch(client, filled, leader_epoch=0).error_code == ErrorCode.none
    newer = fetch(client, filled, leader_epoch=5)
    assert newer.error_code == ErrorCode.unknown_leader_epoch


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
@pytest.mark.parametrize("size", [0, 1, len(PAIR) - 1])
def test_the_first_batch_is_sent_whole_however_small_the_limit(
    client: RawClient, filled: Topic, limit: str, size: int
) -> None:
    answer = fetch(client, filled, 4, **{limit: size})
    assert [record.offset for record in read_records(answer.records)] == [4, 5]


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
def test_no_more_than_the_limit_is_sent_beyond_the_first_batch(
    client: RawClient, filled: Topic, limit: str
) -> None:
    answer = fetch(client, filled, **{limit: 3 * len(PAIR) + 20})
    assert len(answer.records) <= 3 * len(PAIR) + 20
    assert len(read_batches(answer.records)) == 3


def test_partitions_share_the_limit_of_the_request_in_the_order_asked(
    client: RawClient, filled: Topic
) -> None:
    fields = fetch_fields(filled, max_bytes=len(PAIR) + 10)
    (first,) = fields["topics"][0]["partitions"]
    fields["topics"][0]["partitions"] = [{**first, "partition": 1}, first]
    one, zero = client.call("fetch", 12, **fields).responses[0].partitions
    assert (one.partition_index, len(read_batches(one.records))) == (1, 1)
    assert (zero.partition_index, zero.error_code, zero.records) == (0, ErrorCode.none, b"")
    assert zero.high_watermark == END


def test_an_error_in_one_partition_leaves_the_others_alone(
    client: RawClient, filled: Topic
) -> None:
    fields = fetch_fields(filled, min_bytes=1 << 30, max_wait_ms=LONG_MS)
    (first,) = fields["topics"][0]["partitions"]
    beyond = {**first, "partition": 1, "fetch_offset": 99}
    fields["topics"][0]["partitions"] = [beyond, first]
    one, zero = client.call("fetch", 12, **fields).responses[0].partitions
    assert one.error_code == ErrorCode.offset_out_of_range
    assert len(read_batches(zero.records)) == BATCHES


@pytest.mark.parametrize(("isolation_level", "aborted"), [(0, None), (1, ())])
def test_the_isolation_level_decides_whether_aborted_transactions_are_listed(
    client: RawClient, filled: Topic, isolation_level: int, aborted: Any
) -> None:
    answer = fetch(client, filled, isolation_level=isolation_level)
    assert answer.aborted_transactions == aborted
    assert len(read_batches(answer.records)) == BATCHES


@pytest.mark.parametrize("version", [4, 9, 10])
def test_zstd_is_sent_to_old_consumers_too(
    client: RawClient, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic()
    produce(client, topic, batch(b"x" * 500, codec="zstd"))
    answer = fetch(client, topic, version=version)
    assert answer.error_code == ErrorCode.none
    assert len(read_batches(answer.records)) == 1


def test_a_replica_that_is_none_is_refused(client: RawClient, filled: Topic) -> None:
    fields = fetch_fields(filled) | {"replica_id": 5}
    (partition,) = client.call("fetch", 12, **fields).responses[0].partitions
    assert partition.error_code == ErrorCode.not_leader_or_follower


def test_an_answer_waits_until_max_wait_is_over(client: RawClient, filled: Topic) -> None:
    began = time.monotonic()
    answer = fetch(client, filled, END, min_bytes=1, max_wait_ms=150)
    assert time.monotonic() - began >= 0.145
    assert (answer.error_code, answer.records) == (ErrorCode.none, b"")


def test_what_there_is_is_sent_when_max_wait_is_over(client: RawClient, filled: Topic) -> None:
    answer = fetch(client, filled, 0, min_bytes=1 << 30, max_wait_ms=100)
    assert len(read_batches(answer.records)) == BATCHES


@pytest.mark.parametrize(
    ("offset", "options"),
    [(0, {"min_bytes": 1}), (END, {"min_bytes": 0}), (99, {"min_bytes": 1 << 30})],
    ids=["enough is there", "nothing is asked for", "an error"],
)
def test_an_answer_does_not_wait_without_need(
    client: RawClient, filled: Topic, offset: int, options: dict[str, int]
) -> None:
    client.socket.settimeout(LONG_MS / 2000)
    fetch(client, filled, offset, max_wait_ms=LONG_MS, **options)


@pytest.mark.parametrize("version", [4, 12, 18])
def test_a_new_record_ends_the_wait(
    target: Target, client: RawClient, filled: Topic, version: int
) -> None:
    client.socket.settimeout(LONG_MS / 2000)
    fields = fetch_fields(filled, END, min_bytes=1, max_wait_ms=LONG_MS)
    waiting = client.send("fetch", version, **fields)
    with RawClient(target.bootstrap_servers) as producer:
        produce(producer, filled, PAIR)
    answer = client.receive("fetch", version, waiting).responses[0].partitions[0]
    assert [record.offset for record in read_records(answer.records)] == [END, END + 1]
    assert answer.high_watermark == END + 2


def test_the_wait_goes_on_until_min_bytes_are_there(
    target: Target, client: RawClient, filled: Topic
) -> None:
    client.socket.settimeout(LONG_MS / 2000)
    fields = fetch_fields(filled, END, min_bytes=3 * len(PAIR), max_wait_ms=LONG_MS)
    waiting = client.send("fetch", 12, **fields)
    with RawClient(target.bootstrap_servers) as producer:
        for _ in range(3):
            produce(producer, filled, PAIR)
    answer = client.receive("fetch", 12, waiting).responses[0].partitions[0]
    assert len(read_batches(answer.records)) == 3


def test_other_connections_are_served_during_a_wait(
    target: Target, client: RawClient, filled: Topic
) -> None:
    client.socket.settimeout(LONG_MS / 2000)
    waiting = client.send("fetch", 12, **fetch_fields(filled, END, min_bytes=1, max_wait_ms=300))
    with RawClient(target.bootstrap_servers) as other:
        assert other.call("api_versions", 0).error_code == ErrorCode.none
    assert client.receive("fetch", 12, waiting).responses


def test_deleting_a_topic_ends_the_wait(target: Target, client: RawClient, filled: Topic) -> None:
    client.socket.settimeout(LONG_MS / 2000)
    fields = fetch_fields(filled, END, min_bytes=1, max_wait_ms=LONG_MS)
    waiting = client.send("fetch", 12, **fields)
    with RawClient(target.bootstrap_servers) as admin:
        wanted = [{"name": filled.name, "topic_id": None}]
        admin.call("delete_topics", 6, topics=wanted, timeout=10_000)
    answer = client.receive("fetch", 12, waiting).responses[0].partitions[0]
    assert answer.error_code in {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
    }


def test_many_readers_of_one_partition_see_the_same(target: Target, filled: Topic) -> None:
    seen: list[Any] = []

    def read() -> None:
        with RawClient(target.bootstrap_servers) as reader:
            seen.append(fetch(reader, filled).records)

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(seen) == 8
    assert len(set(seen)) == 1
