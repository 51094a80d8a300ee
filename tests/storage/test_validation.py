"""The codes in the tables are what Apache Kafka 4.3.1 answered to the same bytes, unless noted."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.model.errors import ApiError, ErrorCode
from strom.model.settings import INT_MAX, MIB
from strom.model.topic_settings import TopicSettings
from strom.storage.validation import validate
from strom.wire.kafka.batch import checksum, has_valid_checksum, pack_header, read_header
from strom.wire.kafka.compression import Codec
from strom.wire.kafka.records import (
    ControlType,
    Marker,
    Record,
    assemble,
    build_batch,
    build_marker,
    read_records,
)

NOW = 1_800_000_000_000
TWO_HOURS = 7_200_000


def settings(**texts):
    return TopicSettings().override({k.replace("_", "."): str(v) for k, v in texts.items()})


def batch(count=2, *, timestamp=NOW, key=b"k", value=b"v", **more):
    return build_batch([Record(i, timestamp, key, value) for i in range(count)], **more)


def signed(data, **changes):
    """The batch with header fields changed and a true checksum."""
    header = read_header(data)._replace(**changes)
    out = bytearray(pack_header(header) + data[61:])
    struct.pack_into(">I", out, 17, checksum(out, 0, len(out)))
    return out


def refusal(data, topic=None, **more):
    with pytest.raises(ApiError) as caught:
        validate(bytearray(data), topic or settings(), now_ms=NOW, **more)
    return caught.value.code.name


GOOD = bytes(batch())
GARBAGE = signed(GOOD[:61] + b"garbage!", batch_length=49 + 8)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"", "INVALID_RECORD", id="nothing"),
        pytest.param(GOOD[:11], "INVALID_RECORD", id="11 bytes"),
        pytest.param(GOOD[:40], "INVALID_RECORD", id="cut in the header"),
        pytest.param(GOOD[:-1], "INVALID_RECORD", id="cut at the end"),
        pytest.param(GOOD + GOOD, "INVALID_RECORD", id="two batches"),
        pytest.param(signed(GOOD, magic=0), "INVALID_RECORD", id="magic 0"),
        pytest.param(signed(GOOD, magic=1), "INVALID_RECORD", id="magic 1"),
        pytest.param(signed(GOOD, magic=3), "CORRUPT_MESSAGE", id="magic 3"),
        pytest.param(signed(GOOD, batch_length=-1), "CORRUPT_MESSAGE", id="length -1"),
        pytest.param(signed(GOOD, batch_length=48), "CORRUPT_MESSAGE", id="length of no batch"),
        pytest.param(GOOD[:-1] + b"x", "CORRUPT_MESSAGE", id="wrong checksum"),
        pytest.param(
            signed(GOOD[:61], batch_length=49, record_count=0, last_offset_delta=-1),
            "INVALID_RECORD",
            id="no records",
        ),
        pytest.param(signed(GOOD, record_count=1), "INVALID_RECORD", id="count 1 of 2"),
        pytest.param(signed(GOOD, record_count=0), "INVALID_RECORD", id="count 0"),
        pytest.param(signed(GOOD, record_count=-1), "INVALID_RECORD", id="count -1"),
        pytest.param(
            signed(GOOD, record_count=-1, last_offset_delta=-2), "INVALID_RECORD", id="offset -2"
        ),
        pytest.param(
            signed(GOOD, record_count=3, last_offset_delta=2), "INVALID_RECORD", id="3 of 2 records"
        ),
        pytest.param(
            signed(GOOD[:61], batch_length=49, record_count=INT_MAX, last_offset_delta=INT_MAX - 1),
            "INVALID_RECORD",
            id="all offsets, no bytes",
        ),
        # Kafka: UNKNOWN_SERVER_ERROR
        pytest.param(
            signed(GOOD, attributes=4, record_count=INT_MAX, last_offset_delta=INT_MAX - 1),
            "INVALID_RECORD",
            id="all offsets, compressed",
        ),
        pytest.param(signed(GOOD, attributes=5), "UNSUPPORTED_COMPRESSION_TYPE", id="codec 5"),
        pytest.param(signed(GOOD, attributes=7), "UNSUPPORTED_COMPRESSION_TYPE", id="codec 7"),
        pytest.param(batch(control=True), "INVALID_RECORD", id="control batch"),
        # Kafka: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, before it looks at the batch
        pytest.param(batch(transactional=True), "INVALID_RECORD", id="transaction of no one"),
        # Kafka lets the next three pass, and takes the first bit off
        pytest.param(batch(append_time_ms=NOW), "INVALID_TIMESTAMP", id="append time"),
        pytest.param(signed(GOOD, attributes=64), "INVALID_RECORD", id="delete horizon"),
        pytest.param(signed(GOOD, attributes=-256), "INVALID_RECORD", id="unknown bits"),
        pytest.param(signed(GOOD, base_offset=5), "INVALID_RECORD", id="base offset 5"),
        pytest.param(
            batch(producer_id=7, producer_epoch=0), "INVALID_RECORD", id="producer, no sequence"
        ),
        pytest.param(batch(timestamp=NOW + TWO_HOURS), "INVALID_TIMESTAMP", id="far future"),
        pytest.param(batch(1, value=bytes(MIB + 12)), "MESSAGE_TOO_LARGE", id="too large"),
    ],
)
def test_it_is_refused_with_kafkas_code(data, code):
    assert refusal(data) == code


def test_the_smallest_records_and_the_best_compressed_ones_are_accepted():
    for codec in Codec:
        data = batch(50_000, key=None, value=None, codec=codec)
        assert validate(data, settings(), now_ms=NOW).header.record_count == 50_000


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(signed(GOOD, record_count=0), id="no records"),
        pytest.param(signed(GOOD, record_count=3), id="more records than offsets"),
        pytest.param(
            signed(GOOD, record_count=9, last_offset_delta=8), id="more records than bytes"
        ),
    ],
)
def test_the_count_of_the_brokers_own_batches_is_checked_too(data):
    assert refusal(data, from_client=False) == "INVALID_RECORD"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(GOOD, id="plain"),
        pytest.param(batch(timestamp=0), id="time 0"),
        pytest.param(batch(timestamp=-1), id="no time"),
        pytest.param(batch(key=None), id="no key"),
        pytest.param(batch(leader_epoch=9), id="leader epoch"),
        pytest.param(batch(producer_id=7, producer_epoch=0, base_sequence=0), id="idempotent"),
        pytest.param(
            batch(producer_id=7, producer_epoch=0, base_sequence=3, transactional=True),
            id="transactional",
        ),
        *(pytest.param(batch(codec=codec), id=codec.name) for codec in Codec),
    ],
)
def test_it_is_accepted_as_it_is(data):
    buffer = bytearray(data)
    validated = validate(buffer, settings(), now_ms=NOW)
    assert validated.buffer is buffer
    assert buffer == data
    assert validated.header == read_header(data)


def test_the_order_of_checks_is_kafkas():
    small = settings(max_message_bytes=70)
    assert refusal(GOOD[:-1] + b"x", small) == "MESSAGE_TOO_LARGE"


def test_a_batch_larger_than_a_segment_is_refused():
    topic = settings(segment_bytes=MIB, max_message_bytes=5 * MIB)
    assert refusal(batch(1, value=bytes(MIB)), topic) == "RECORD_LIST_TOO_LARGE"


@pytest.mark.parametrize("codec", Codec)
def test_compacted_topics_need_keys(codec):
    topic = settings(cleanup_policy="compact")
    assert refusal(batch(key=None, codec=codec), topic) == "INVALID_RECORD"
    assert validate(batch(key=b"", codec=codec), topic, now_ms=NOW).header.record_count == 2


def test_records_that_cannot_be_read_are_refused_where_they_are_looked_at():
    topic = settings(cleanup_policy="compact,delete")
    assert refusal(GARBAGE, topic) == "INVALID_RECORD"
    assert refusal(signed(GOOD, attributes=1), topic) == "INVALID_RECORD"
    bomb = batch(1, value=bytes(8 * MIB), codec=Codec.ZSTD)
    assert len(bomb) < 100_000
    assert refusal(bomb, topic) == "INVALID_RECORD"


def test_append_time_replaces_the_producers_and_the_checksum_holds():
    topic = settings(message_timestamp_type="LogAppendTime")
    validated = validate(batch(timestamp=NOW + 10**8), topic, now_ms=NOW)
    header = read_header(validated.buffer)
    assert header == validated.header
    assert has_valid_checksum(validated.buffer, 0, header)
    assert [r.timestamp for r in read_records(validated.buffer, 0, header)] == [NOW, NOW]
    assert refusal(batch(append_time_ms=NOW), topic) == "INVALID_TIMESTAMP"


def test_a_view_into_a_larger_buffer_is_stamped_in_place():
    data = bytearray(b"head" + GOOD + b"tail")
    topic = settings(message_timestamp_type="LogAppendTime")
    validate(memoryview(data)[4:-4], topic, now_ms=NOW)
    assert read_header(data, 4).max_timestamp == NOW
    assert data[:4] + data[-4:] == b"headtail"


def test_timestamps_may_not_be_too_old_where_that_is_limited():
    topic = settings(message_timestamp_before_max_ms=1000)
    assert refusal(batch(timestamp=NOW - 1001), topic) == "INVALID_TIMESTAMP"
    later_one_is_old = [Record(0, NOW, b"k", b"v"), Record(1, NOW - 5000, b"k", b"v")]
    assert refusal(build_batch(later_one_is_old), topic) == "INVALID_TIMESTAMP"
    for timestamp in (-1, NOW - 1000, NOW):
        assert validate(batch(timestamp=timestamp), topic, now_ms=NOW)


@given(
    st.sampled_from(Codec),
    st.sampled_from(["uncompressed", "gzip", "snappy", "lz4", "zstd"]),
    st.sampled_from(["CreateTime", "LogAppendTime"]),
)
def test_a_topics_compression_type_decides_the_codec(sent, wanted, clock):
    topic = settings(compression_type=wanted, message_timestamp_type=clock)
    data = batch(
        20, codec=sent, producer_id=3, producer_epoch=1, base_sequence=9, transactional=True
    )
    header, buffer = validate(bytearray(data), topic, now_ms=NOW)
    assert header == read_header(buffer)
    assert header.codec == Codec.named(wanted)
    assert header.size_bytes == len(buffer)
    assert has_valid_checksum(buffer, 0, header)
    assert read_records(buffer, 0, header) == read_records(data, 0, read_header(data))
    kept = ("producer_id", "producer_epoch", "base_sequence", "record_count", "is_transactional")
    for name in kept:
        assert getattr(header, name) == getattr(read_header(data), name)
    assert header.has_append_time == (clock == "LogAppendTime")


def test_a_batch_that_grows_too_large_by_the_topics_codec_is_refused():
    topic = settings(compression_type="uncompressed", max_message_bytes=200)
    assert refusal(batch(1, value=bytes(5000), codec=Codec.ZSTD), topic) == "MESSAGE_TOO_LARGE"


def test_the_broker_may_write_markers_into_any_topic():
    marker = build_marker(
        Marker(ControlType.COMMIT, 0), producer_id=3, producer_epoch=0, timestamp=NOW
    )
    for topic in (
        settings(),
        settings(cleanup_policy="compact"),
        settings(compression_type="zstd"),
    ):
        validated = validate(bytearray(marker), topic, now_ms=NOW, from_client=False)
        assert validated.buffer == marker


def test_the_broker_may_write_for_a_producer_without_a_sequence():
    data = batch(producer_id=3, producer_epoch=0, transactional=True)
    topic = settings(cleanup_policy="compact")
    assert validate(data, topic, now_ms=NOW, from_client=False).buffer == data


@given(st.binary(max_size=120) | st.binary(max_size=40).map(lambda tail: GOOD[:61] + tail))
def test_any_bytes_are_accepted_whole_or_refused_with_a_code(data):
    header = None
    try:
        header = validate(bytearray(data), settings(), now_ms=NOW).header
    except ApiError as error:
        assert error.code is not ErrorCode.UNKNOWN_SERVER_ERROR  # noqa: PT017
    if header is not None:
        assert header.size_bytes == len(data)


def test_assembled_batches_are_what_validation_expects():
    header = read_header(GOOD)
    assert assemble(header, GOOD[61:], Codec.NONE) == GOOD


def test_scraps_after_the_batch_are_cut_off():
    validated = validate(bytearray(GOOD + b"\0" * 5), TopicSettings(), now_ms=NOW)
    assert bytes(validated.buffer) == GOOD


def test_the_records_to_blame_are_named():
    keyed, keyless = Record(0, NOW, b"k", b"v", ()), Record(1, NOW, None, b"v", ())
    with pytest.raises(ApiError) as caught:
        validate(
            build_batch([keyed, keyless]), TopicSettings(cleanup_policy=("compact",)), now_ms=NOW
        )
    assert list(caught.value.records) == [1]
