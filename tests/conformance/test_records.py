"""Records come back as they were sent, with any content and any compression."""

import time
from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import (
    CODECS,
    Record,
    batch,
    read_batches,
    read_records,
    read_values,
)
from tests.conformance.calls import Topic, fetch, produce
from tests.conformance.raw import RawClient

MakeTopic = Callable[..., Topic]

ODD_RECORDS = (
    Record(b"value", key=b"key", offset=0),
    Record(b"", key=b"", offset=1),
    Record(None, key=b"a tombstone", offset=2),
    Record(b"no key", offset=3),
    Record(None, offset=4),
    Record(bytes(range(256)), key=b"\0", timestamp_ms=1, offset=5),
    Record(b"h", headers=(("one", b"1"), ("one", b"again"), ("null", None), ("", b"")), offset=6),
    Record(b"compressible " * 100, offset=7),
    Record("ünïcödé".encode(), headers=(("größe", b"\xff"),), timestamp_ms=0, offset=8),
)


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    client: RawClient, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic()
    assert produce(client, topic, batch(*ODD_RECORDS, codec=codec)).error_code == ErrorCode.none
    fetched = fetch(client, topic).records
    assert read_records(fetched) == list(ODD_RECORDS)
    assert [one.compression_type for one in read_batches(fetched)] == [CODECS[codec]]


@pytest.mark.parametrize("codec", CODECS)
def test_the_bytes_of_a_batch_are_kept_but_for_offset_and_epoch(
    client: RawClient, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic()
    sent = batch(*ODD_RECORDS, codec=codec)
    for _ in range(2):
        produce(client, topic, sent)
    fetched = fetch(client, topic).records
    assert [fetched[16 : len(sent)], fetched[len(sent) + 16 :]] == [sent[16:], sent[16:]]


@pytest.mark.parametrize("codec", CODECS)
def test_large_batches_come_back_whole(
    client: RawClient, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic(configs={"max.message.bytes": "5000000"})
    values = [bytes([number % 251]) * 1000 for number in range(4000)]
    assert produce(client, topic, batch(*values, codec=codec)).error_code == ErrorCode.none
    assert read_values(fetch(client, topic, partition_max_bytes=1 << 23).records) == values


@pytest.mark.parametrize(("kept_as", "sent_as"), [("gzip", "none"), ("uncompressed", "lz4")])
def test_a_topic_may_choose_the_codec(
    client: RawClient, make_topic: MakeTopic, kept_as: str, sent_as: str
) -> None:
    topic = make_topic(configs={"compression.type": kept_as})
    produce(client, topic, batch(*ODD_RECORDS, codec=sent_as))
    fetched = fetch(client, topic).records
    expected = CODECS["none" if kept_as == "uncompressed" else kept_as]
    assert [one.compression_type for one in read_batches(fetched)] == [expected]
    assert read_records(fetched) == list(ODD_RECORDS)


@pytest.mark.parametrize("codec", CODECS)
def test_a_topic_may_stamp_records_with_the_brokers_time(
    client: RawClient, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    answer = produce(client, topic, batch(b"a" * 200, b"b" * 200, codec=codec))
    after = int(time.time() * 1000)
    stamped_at = round(answer.log_append_time.timestamp() * 1000)
    assert before <= stamped_at <= after
    (kept,) = read_batches(fetch(client, topic).records)
    assert (kept.timestamp_type, kept.max_timestamp) == (1, stamped_at)
    assert [record.timestamp for record in kept] == [stamped_at] * 2


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 1])
def test_any_old_timestamp_is_kept(
    client: RawClient, make_topic: MakeTopic, timestamp_ms: int
) -> None:
    topic = make_topic()
    produce(client, topic, batch(Record(b"x", timestamp_ms=timestamp_ms)))
    (record,) = read_records(fetch(client, topic).records)
    assert record.timestamp_ms == timestamp_ms


def test_fetched_batches_carry_the_leader_epoch(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce(client, topic, batch(b"a"))
    (kept,) = read_batches(fetch(client, topic).records)
    assert kept.leader_epoch == 0
