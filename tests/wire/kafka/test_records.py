"""Judges: the batch readers and builders of kafka-python (pure Python) and aiokafka (compiled)."""

import random

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.model.errors import CorruptData
from strom.wire.kafka.batch import has_valid_checksum, read_header
from strom.wire.kafka.compression import Codec
from strom.wire.kafka.records import (
    ControlType,
    Marker,
    Record,
    assemble,
    build_batch,
    build_marker,
    encode_records,
    read_body,
    read_keys,
    read_marker,
    read_records,
    rebase_timestamp,
)

READERS = {
    "kafka-python": kafka_python_records.DefaultRecordBatch,
    "aiokafka": aiokafka_records.DefaultRecordBatch,
}
BUILDERS = {
    "kafka-python": kafka_python_records.DefaultRecordBatchBuilder,
    "aiokafka": aiokafka_records.DefaultRecordBatchBuilder,
}
BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)


@st.composite
def record_lists(draw, *, gaps=True, most=30):
    records = []
    offset = draw(st.integers(0, 2**40)) if gaps else 0
    for _ in range(draw(st.integers(1, most))):
        timestamp = draw(st.integers(0, 2**45))
        records.append(Record(offset, timestamp, draw(BYTES), draw(BYTES), draw(HEADERS)))
        offset += draw(st.integers(1, 3000)) if gaps else 1
    return records


def read_all(batch):
    header = read_header(batch)
    assert header.size_bytes == len(batch)
    assert has_valid_checksum(batch, 0, header)
    return read_records(batch, 0, header)


@given(record_lists(), st.sampled_from(Codec), st.integers(0, 20))
def test_records_round_trip(records, codec, before):
    base_offset = max(0, records[0].offset - before)
    batch = build_batch(records, codec=codec, base_offset=base_offset)
    assert read_all(batch) == records
    header = read_header(batch)
    assert (header.base_offset, header.last_offset) == (base_offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)


@pytest.mark.parametrize("judge", READERS)
@given(record_lists(), st.sampled_from(Codec))
def test_other_clients_read_what_was_built(judge, records, codec):
    batch = READERS[judge](bytes(build_batch(records, codec=codec, base_offset=records[0].offset)))
    assert batch.validate_crc()
    assert [
        Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch
    ] == records


@pytest.mark.parametrize("judge", BUILDERS)
@given(record_lists(gaps=False), st.sampled_from(Codec))
def test_what_other_clients_built_is_read(judge, records, codec):
    builder = BUILDERS[judge](
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=7,
        producer_epoch=2,
        base_sequence=40,
        batch_size=2**24,
    )
    for record in records:
        *_, headers = record
        builder.append(*record[:-1], headers=list(headers))
    batch = builder.build()
    assert read_all(batch) == records
    header = read_header(batch)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)


@given(record_lists(), st.sampled_from(Codec))
def test_keys_are_found_without_reading_the_rest(records, codec):
    batch = build_batch(records, codec=codec, base_offset=records[0].offset)
    header = read_header(batch)
    keys = read_keys(read_body(batch, 0, header), header)
    assert [(k.offset, k.timestamp, k.key, k.has_value) for k in keys] == [
        (r.offset, r.timestamp, r.key, r.value is not None) for r in records
    ]


@given(record_lists(), st.integers(0, 2**45))
def test_a_record_moved_to_another_base_time_keeps_its_own_time(records, base_timestamp):
    batch = build_batch(records, base_offset=records[0].offset)
    header = read_header(batch)
    body = read_body(batch, 0, header)
    moved = bytearray()
    for key in read_keys(body, header):
        rebase_timestamp(moved, body, key, base_timestamp)
    again = assemble(header._replace(base_timestamp=base_timestamp), moved, Codec.NONE)
    assert read_all(again) == records


def test_append_time_holds_for_every_record():
    records = [Record(i, 100 + i, b"k", b"v") for i in range(3)]
    batch = build_batch(records, append_time_ms=999)
    assert [record.timestamp for record in read_all(batch)] == [999, 999, 999]
    assert [r.timestamp for r in READERS["aiokafka"](bytes(batch))] == [999, 999, 999]


def test_header_keys_that_are_no_utf8_keep_their_bytes():
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    record = Record(0, 1, None, b"v", ((name, b"x"),))
    assert read_all(build_batch([record])) == [record]
    assert b"\xff\xfe" in build_batch([record])


def test_a_batch_needs_records_with_growing_offsets():
    one = Record(5, 1, None, None)
    for records in ([], [one, one], [one, one._replace(offset=4)]):
        with pytest.raises(ValueError):
            build_batch(records)
    with pytest.raises(ValueError):
        build_batch([one], base_offset=6)


SAMPLE = [
    Record(0, 1_000, b"key", b"value" * 30, (("h", b"1"), ("i", None))),
    Record(1, 999, None, b""),
    Record(3, 100_000, b"", None),
]


@pytest.mark.parametrize("codec", Codec)
def test_every_truncation_of_the_records_is_refused(codec):
    batch = build_batch(SAMPLE, codec=codec)
    header = read_header(batch)
    for cut in range(61, len(batch)):
        with pytest.raises(CorruptData):
            read_records(batch[:cut], 0, header)
        shorter = header._replace(batch_length=cut - 12)  # as if it had been written so
        with pytest.raises(CorruptData):
            read_records(batch[:cut], 0, shorter)


@pytest.mark.parametrize("count", [-1, 0, 1, 2, 4, 100, 2**31 - 1])
def test_a_wrong_record_count_is_refused(count):
    batch = build_batch(SAMPLE)
    header = read_header(batch)._replace(record_count=count)
    with pytest.raises(CorruptData):
        read_records(batch, 0, header)
    with pytest.raises(CorruptData):
        read_keys(read_body(batch, 0, header), header)


def test_an_offset_beyond_the_last_one_of_the_batch_is_refused():
    batch = build_batch(SAMPLE)
    with pytest.raises(CorruptData):
        read_records(batch, 0, read_header(batch)._replace(last_offset_delta=2))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("ff" * 12, id="length without an end"),
        pytest.param("0c 00 00 00 01 01" + "ff" * 10 + "01", id="header count of 70 bits"),
        pytest.param("0c 00 00 00 01 01 01", id="negative header count"),
        pytest.param("0c 00 00 00 03 01 00", id="key length -2"),
        pytest.param("0c 00 00 00 01 03 00", id="value length -2"),
        pytest.param("0c 00 00 01 01 01 00", id="offset delta -1"),
        pytest.param("10 00 00 00 01 01 02 01 01", id="header without a key"),
        pytest.param("0c 00 00 00 01 01 fe ff ff ff 0f", id="a milliard of headers"),
        pytest.param("0a 00 00 00 01 01 00", id="length too small"),
        pytest.param("0e 00 00 00 01 01 00", id="length too large"),
        pytest.param("0c 00 00 00 01 01 00 00", id="a byte left over"),
    ],
)
def test_malformed_records_are_refused(body):
    header = read_header(build_batch([Record(0, 0, None, None)]))
    batch = assemble(header, bytes.fromhex(body), Codec.NONE)
    with pytest.raises(CorruptData):
        read_records(batch, 0, read_header(batch))


def test_damaged_records_raise_nothing_but_corrupt_data():
    chance = random.Random(5)
    batch = build_batch(SAMPLE)
    header = read_header(batch)
    for _ in range(5_000):
        damaged = bytearray(batch)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(61, len(batch))] = chance.randrange(256)
        for read in (read_records, lambda b, p, h: read_keys(read_body(b, p, h), h)):
            try:
                read(damaged, 0, header)
            except CorruptData:
                pass


@pytest.mark.parametrize("kind", ControlType)
def test_markers_round_trip_and_other_clients_understand_them(kind):
    marker = Marker(kind, coordinator_epoch=13)
    batch = build_marker(
        marker, producer_id=9, producer_epoch=4, timestamp=77, base_offset=50, leader_epoch=3
    )
    header = read_header(batch)
    assert read_marker(batch, 0, header) == marker
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 4, -1)
    assert (header.base_offset, header.leader_epoch, header.max_timestamp) == (50, 3, 77)
    (foreign,) = READERS["kafka-python"](bytes(batch))
    assert foreign.commit == (kind is ControlType.COMMIT)
    assert foreign.abort == (kind is ControlType.ABORT)


def test_control_records_of_another_kind_are_no_markers():
    leader_change = Record(0, 1, b"\0\0\0\2", b"\0\0")
    batch = build_batch([leader_change], control=True)
    assert read_marker(batch, 0, read_header(batch)) is None


def test_a_cut_marker_is_refused():
    batch = build_batch([Record(0, 1, b"\0\0\0", b"")], control=True)
    with pytest.raises(CorruptData):
        read_marker(batch, 0, read_header(batch))


def test_encoding_alone_gives_what_the_batch_holds():
    assert build_batch(SAMPLE)[61:] == encode_records(SAMPLE, 0, SAMPLE[0].timestamp)
