"""Produce: who is acknowledged, who is refused, and with which error."""

import struct
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import Record, batch, read_batches, read_values, with_bytes_at
from tests.conformance.calls import (
    Topic,
    create_topic,
    end_offset,
    fetch,
    produce,
    produce_fields,
)
from tests.conformance.raw import ConnectionClosed, RawClient

MakeTopic = Callable[..., Topic]
HOUR_MS = 3_600_000

PAIR = batch(b"first", b"second")
CORRUPT = with_bytes_at(PAIR, len(PAIR) - 2, b"!", fix_checksum=False)
# Where a batch (format 2) keeps things.
LENGTH, MAGIC, ATTRIBUTES, LAST_OFFSET_DELTA, MAX_TIMESTAMP, COUNT = 8, 16, 21, 23, 35, 57
LOG_OVERHEAD, HEADER_BYTES = 12, 61


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def with_body(data: bytes, body: bytes) -> bytes:
    """The batch with other bytes where its records were."""
    header = with_bytes_at(data, LENGTH, int32(HEADER_BYTES - LOG_OVERHEAD + len(body)))
    return with_bytes_at(header[:HEADER_BYTES] + body, 0, b"")


def claiming(data: bytes, count: int) -> bytes:
    """The batch with another number of records, and a last offset that agrees with it."""
    counted = with_bytes_at(data, COUNT, int32(count))
    return with_bytes_at(counted, LAST_OFFSET_DELTA, int32(count - 1))


NOISE = b"\xff" * 50
EMPTY = with_body(PAIR, b"")


@pytest.mark.parametrize("acks", [-1, 1])
def test_offsets_count_up(client: RawClient, make_topic: MakeTopic, acks: int) -> None:
    topic = make_topic()
    answers = [produce(client, topic, PAIR, acks=acks) for _ in range(3)]
    assert [answer.error_code for answer in answers] == [ErrorCode.none] * 3
    assert [answer.base_offset for answer in answers] == [0, 2, 4]
    assert end_offset(client, topic) == 6


def test_partitions_count_on_their_own(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    produce(client, topic, PAIR, partition=0)
    assert produce(client, topic, PAIR, partition=1).base_offset == 0


def test_with_acks_0_there_is_no_answer_but_the_record_is_kept(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    client.send("produce", 12, **produce_fields(topic, PAIR, acks=0))
    # The next answer on the connection is the one to the next request.
    assert produce(client, topic, batch(b"third")).base_offset == 2


@pytest.mark.parametrize("records", [PAIR, CORRUPT], ids=["unknown topic", "corrupt batch"])
def test_with_acks_0_an_error_closes_the_connection(
    client: RawClient, make_topic: MakeTopic, unknown_topic: Topic, records: bytes
) -> None:
    topic = unknown_topic if records is PAIR else make_topic()
    client.send("produce", 12, **produce_fields(topic, records, acks=0))
    with pytest.raises(ConnectionClosed):
        client.call("api_versions", 0)


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused(client: RawClient, make_topic: MakeTopic, acks: int) -> None:
    topic = make_topic()
    assert produce(client, topic, PAIR, acks=acks).error_code == ErrorCode.invalid_required_acks
    assert end_offset(client, topic) == 0


@pytest.mark.parametrize("name", ["no-such-topic", "not a name", ""])
def test_an_unknown_name_is_an_unknown_topic_and_is_not_created(
    client: RawClient, name: str
) -> None:
    answer = produce(client, Topic(name, None), PAIR)
    assert answer.error_code == ErrorCode.unknown_topic_or_partition
    assert (answer.base_offset, answer.log_start_offset) == (-1, -1)


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_an_unknown_partition(client: RawClient, make_topic: MakeTopic, partition: int) -> None:
    answer = produce(client, make_topic(), PAIR, partition=partition)
    assert answer.error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("topic_id", [None, uuid4()], ids=["zero", "random"])
def test_an_unknown_topic_id(client: RawClient, topic_id: Any) -> None:
    answer = produce(client, Topic("", topic_id), PAIR, version=13)
    assert answer.error_code == ErrorCode.unknown_topic_id


def test_a_batch_sent_by_topic_id_is_appended(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    answer = client.call("produce", 13, **produce_fields(topic, PAIR))
    assert answer.responses[0].topic_id == topic.id
    assert end_offset(client, topic) == 2


def test_each_partition_of_a_request_has_its_own_answer(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    fields = produce_fields(topic, PAIR)
    fields["topic_data"][0]["partition_data"] = [
        {"index": 0, "records": PAIR},
        {"index": 7, "records": PAIR},
        {"index": 1, "records": CORRUPT},
    ]
    fields["topic_data"].append(
        {"name": "nowhere", "partition_data": [{"index": 0, "records": PAIR}]}
    )
    answer = client.call("produce", 12, **fields)
    codes = {
        (found.name, one.index): one.error_code
        for found in answer.responses
        for one in found.partition_responses
    }
    assert codes == {
        (topic.name, 0): ErrorCode.none,
        (topic.name, 7): ErrorCode.unknown_topic_or_partition,
        (topic.name, 1): ErrorCode.corrupt_message,
        ("nowhere", 0): ErrorCode.unknown_topic_or_partition,
    }


def test_a_request_without_topics_has_an_empty_answer(client: RawClient) -> None:
    answer = client.call("produce", 12, transactional_id=None, acks=-1, timeout=0, topic_data=())
    assert answer.responses == ()


REFUSED = {
    "no bytes at all": (b"", ErrorCode.invalid_record),
    "cut off at the end": (PAIR[:-3], ErrorCode.invalid_record),
    "cut off in the header": (PAIR[:30], ErrorCode.invalid_record),
    "a wrong checksum": (CORRUPT, ErrorCode.corrupt_message),
    "the old format 1": (
        with_bytes_at(PAIR, MAGIC, b"\1", fix_checksum=False),
        ErrorCode.invalid_record,
    ),
    "a future format": (
        with_bytes_at(PAIR, MAGIC, b"\3", fix_checksum=False),
        ErrorCode.corrupt_message,
    ),
    "a negative length": (with_bytes_at(PAIR, LENGTH, int32(-5)), ErrorCode.corrupt_message),
    "a length below a header": (with_bytes_at(PAIR, LENGTH, int32(10)), ErrorCode.corrupt_message),
    "two batches": (PAIR + PAIR, ErrorCode.invalid_record),
    "a count too high": (with_bytes_at(PAIR, COUNT, int32(5)), ErrorCode.invalid_record),
    "a count too low": (with_bytes_at(PAIR, COUNT, int32(1)), ErrorCode.invalid_record),
    "a count of zero": (with_bytes_at(PAIR, COUNT, int32(0)), ErrorCode.invalid_record),
    "a wrong last offset": (
        with_bytes_at(PAIR, LAST_OFFSET_DELTA, int32(9)),
        ErrorCode.invalid_record,
    ),
    "a negative count and last offset": (claiming(PAIR, -1), ErrorCode.invalid_record),
    "more records than bytes for them": (claiming(PAIR, 100), ErrorCode.invalid_record),
    "no bytes for the most records that a count can claim": (
        claiming(EMPTY, 2**31 - 1),
        ErrorCode.invalid_record,
    ),
    "a base offset": (with_bytes_at(PAIR, 0, int64(99)), ErrorCode.invalid_record),
    "a control batch": (with_bytes_at(PAIR, ATTRIBUTES, int16(0x20)), ErrorCode.invalid_record),
}


@pytest.mark.parametrize(("records", "code"), REFUSED.values(), ids=REFUSED)
def test_a_malformed_batch_is_refused_and_nothing_is_kept(
    client: RawClient, make_topic: MakeTopic, records: bytes, code: ErrorCode
) -> None:
    topic = make_topic()
    produce(client, topic, batch(b"before"))
    assert produce(client, topic, records).error_code == code
    assert end_offset(client, topic) == 1
    assert produce(client, topic, batch(b"after")).base_offset == 1


UNREADABLE = {
    "an unknown codec": with_bytes_at(PAIR, ATTRIBUTES, int16(5)),
    "plain bytes called gzip": with_bytes_at(PAIR, ATTRIBUTES, int16(1)),
    "records that are noise": with_bytes_at(PAIR, 61, b"\xff" * 8),
    "nothing but noise": claiming(with_body(PAIR, NOISE), 1),
    "noise for more records than bytes for them": claiming(with_body(PAIR, NOISE), 50),
    "a compressed batch without bytes": claiming(
        with_bytes_at(EMPTY, ATTRIBUTES, int16(4)), 2**31 - 1
    ),
}


@pytest.mark.parametrize("records", UNREADABLE.values(), ids=UNREADABLE)
def test_records_that_cannot_be_read_are_refused_with_any_codec(
    client: RawClient, make_topic: MakeTopic, records: bytes
) -> None:
    # Kafka answers UNKNOWN_SERVER_ERROR here, which makes clients guess; any error code will do.
    topic = make_topic()
    assert produce(client, topic, records).error_code != ErrorCode.none
    assert end_offset(client, topic) == 0


def test_bytes_after_the_batch_are_dropped(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert produce(client, topic, PAIR + b"abc").error_code == ErrorCode.none
    assert read_values(fetch(client, topic).records) == [b"first", b"second"]


def test_the_brokers_say_overrides_what_a_producer_claims(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    claims_append_time = with_bytes_at(PAIR, ATTRIBUTES, int16(0x08))
    wrong_max_timestamp = with_bytes_at(PAIR, MAX_TIMESTAMP, int64(5))
    for records in (claims_append_time, wrong_max_timestamp):
        assert produce(client, topic, records).error_code == ErrorCode.none
    kept = read_batches(fetch(client, topic).records)
    right = read_batches(PAIR)[0]
    assert [one.attributes for one in kept] == [0, 0]
    assert [one.max_timestamp for one in kept] == [right.max_timestamp] * 2


def test_a_batch_larger_than_max_message_bytes_is_refused(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(configs={"max.message.bytes": "200"})
    assert produce(client, topic, batch(b"x" * 300)).error_code == ErrorCode.message_too_large
    assert produce(client, topic, batch(b"x" * 300, codec="gzip")).error_code == ErrorCode.none
    fits = batch(b"x" * (200 - len(batch(b"")) - 2))
    assert len(fits) == 200
    assert produce(client, topic, fits).error_code == ErrorCode.none


def test_a_batch_of_a_megabyte_fits_the_default(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    limit = 1_048_588
    assert produce(client, topic, batch(b"x" * (limit - 100))).error_code == ErrorCode.none
    assert produce(client, topic, batch(b"x" * limit)).error_code == ErrorCode.message_too_large


def test_a_compacted_topic_refuses_records_without_a_key_and_names_them(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(configs={"cleanup.policy": "compact"})
    mixed = batch(Record(b"1", key=b"key"), b"keyless", Record(b"2", key=b"key"), b"keyless")
    answer = produce(client, topic, mixed)
    assert answer.error_code == ErrorCode.invalid_record
    assert [one.batch_index for one in answer.record_errors] == [1, 3]
    assert all(one.batch_index_error_message for one in answer.record_errors)
    assert answer.error_message
    assert end_offset(client, topic) == 0
    assert produce(client, topic, mixed, version=7).error_code == ErrorCode.invalid_record


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_compacted_topic_looks_into_compressed_batches(
    client: RawClient, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic(configs={"cleanup.policy": "compact"})
    keyed = batch(Record(b"x" * 200, key=b"key"), Record(None, key=b""), codec=codec)
    assert produce(client, topic, keyed).error_code == ErrorCode.none
    keyless = produce(client, topic, batch(b"keyless" * 50, codec=codec))
    assert keyless.error_code == ErrorCode.invalid_record


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.unsupported_compression_type),
        (6, ErrorCode.unsupported_compression_type),
        (7, ErrorCode.none),
    ],
)
def test_zstd_is_younger_than_some_versions(
    client: RawClient, make_topic: MakeTopic, version: int, code: ErrorCode
) -> None:
    records = batch(b"x" * 500, codec="zstd")
    assert produce(client, make_topic(), records, version=version).error_code == code


def test_timestamps_too_far_ahead_are_refused_and_named(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ahead = int(time.time() * 1000) + 2 * HOUR_MS
    answer = produce(client, topic, batch(b"fine", Record(b"early", timestamp_ms=ahead)))
    assert answer.error_code == ErrorCode.invalid_timestamp
    assert [one.batch_index for one in answer.record_errors] == [1]
    assert end_offset(client, topic) == 0


def test_timestamps_too_far_behind_are_refused_if_the_topic_says_so(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(configs={"message.timestamp.before.max.ms": str(HOUR_MS)})
    assert produce(client, topic, PAIR).error_code == ErrorCode.invalid_timestamp
    now = int(time.time() * 1000)
    fresh = produce(client, topic, batch(Record(b"now", timestamp_ms=now)))
    assert fresh.error_code == ErrorCode.none


def test_one_replica_is_enough_for_any_min_insync_replicas(
    client: RawClient, make_topic: MakeTopic
) -> None:
    # Kafka counts at most as many in-sync replicas as the topic has replicas.
    topic = make_topic(configs={"min.insync.replicas": "2"})
    assert produce(client, topic, PAIR, acks=-1).error_code == ErrorCode.none


def test_a_transactional_batch_without_a_transactional_id_is_refused(
    client: RawClient, make_topic: MakeTopic
) -> None:
    records = batch(b"x", producer_id=1, epoch=0, sequence=0, transactional=True)
    answer = produce(client, make_topic(), records)
    assert answer.error_code == ErrorCode.transactional_id_authorization_failed


def test_a_deleted_and_recreated_topic_starts_empty_under_a_new_id(
    client: RawClient, make_topic: MakeTopic
) -> None:
    old = make_topic()
    produce(client, old, PAIR)
    wanted = [{"name": old.name, "topic_id": None}]
    client.call("delete_topics", 6, topics=wanted, timeout=10_000)
    new = create_topic(client, old.name)
    assert new.id != old.id
    assert end_offset(client, new) == 0
    stale = produce(client, old, PAIR, version=13)
    assert stale.error_code == ErrorCode.unknown_topic_id
