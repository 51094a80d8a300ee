"""The three indexes: what they find, how they lie on disk, and that damage is noticed."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.model.errors import CorruptData
from strom.storage.checksummed import add_checksum
from strom.storage.offset_index import IndexEntry, OffsetIndex
from strom.storage.time_index import TimeEntry, TimeIndex
from strom.storage.transaction_index import AbortedTransaction, decode_aborted, encode_aborted

U32 = st.integers(0, 2**32 - 1)
ASCENDING = st.lists(st.tuples(U32, U32), max_size=30).map(
    lambda pairs: list(
        zip(sorted({a for a, _ in pairs}), sorted({b for _, b in pairs}), strict=False)
    )
)


def offset_index(entries) -> OffsetIndex:
    index = OffsetIndex()
    for offset, position in entries:
        index.add(offset, position)
    return index


@settings(deadline=None)
@given(ASCENDING, U32)
def test_the_offset_index_finds_the_last_entry_at_or_before(entries, offset):
    index = offset_index(entries)
    before = [entry for entry in entries if entry[0] <= offset]
    after = [entry for entry in entries if entry[0] > offset]
    assert index.floor(offset) == (IndexEntry(*before[-1]) if before else None)
    assert index.position_after(offset) == (after[0][1] if after else None)


@settings(deadline=None)
@given(ASCENDING)
def test_the_offset_index_lies_on_disk_as_kafka_has_it(entries):
    data = offset_index(entries).encode()
    assert data == add_checksum(b"".join(struct.pack(">II", *entry) for entry in entries))
    read = OffsetIndex.decode(data, 2**32)
    assert len(read) == len(entries)
    assert read.encode() == data


@pytest.mark.parametrize(
    "data",
    [
        b"1234567",
        struct.pack(">IIII", 5, 10, 5, 20),
        struct.pack(">IIII", 5, 10, 6, 10),
        struct.pack(">II", 5, 1000),
    ],
)
def test_an_impossible_offset_index_is_refused(data):
    with pytest.raises(CorruptData):
        OffsetIndex.decode(add_checksum(data), 1000)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**62), U32), max_size=30), st.integers(0, 2**62))
def test_the_time_index_keeps_only_new_largest_timestamps(pairs, timestamp):
    index, kept = TimeIndex(), list[Any]()
    for at, (stamp, _) in enumerate(pairs):
        index.add(stamp, at)
        if not kept or stamp > kept[-1].timestamp:
            kept.append(TimeEntry(stamp, at))
    before = [entry for entry in kept if entry.timestamp < timestamp]
    assert index.before(timestamp) == (before[-1] if before else None)
    assert index.last() == (kept[-1] if kept else None)
    assert index.encode() == add_checksum(b"".join(struct.pack(">qI", *entry) for entry in kept))
    assert TimeIndex.decode(index.encode()).last() == index.last()


@pytest.mark.parametrize("data", [b"x" * 13, struct.pack(">qIqI", 5, 1, 5, 2)])
def test_an_impossible_time_index_is_refused(data):
    with pytest.raises(CorruptData):
        TimeIndex.decode(add_checksum(data))


def test_the_transaction_index_gives_back_what_was_written():
    transactions = [AbortedTransaction(1, 2, 3, 4), AbortedTransaction(5, 6, 7, 2**60)]
    assert decode_aborted(encode_aborted(transactions), 3, 8) == transactions
    assert decode_aborted(encode_aborted(transactions), 0, None) == transactions


@pytest.mark.parametrize(("base_offset", "next_offset"), [(4, 8), (4, None), (0, 7), (0, 3)])
def test_the_transaction_index_of_another_segment_is_refused(base_offset, next_offset):
    transactions = [AbortedTransaction(1, 2, 3, 4), AbortedTransaction(5, 6, 7, 2**60)]
    with pytest.raises(CorruptData):
        decode_aborted(encode_aborted(transactions), base_offset, next_offset)


def time_index() -> TimeIndex:
    index = TimeIndex()
    index.add(1000, 1)
    index.add(2000, 5)
    return index


@pytest.mark.parametrize(
    ("data", "decode"),
    [
        (
            offset_index([(1, 10), (5, 80)]).encode(),
            lambda data: OffsetIndex.decode(data, 100),
        ),
        (time_index().encode(), TimeIndex.decode),
        (
            encode_aborted([AbortedTransaction(1, 2, 3, 4)]),
            lambda data: decode_aborted(data, 0, 10),
        ),
    ],
    ids=["offset", "time", "transaction"],
)
def test_any_damage_to_an_index_is_noticed(data, decode):
    for length in range(len(data)):
        with pytest.raises(CorruptData):
            decode(data[:length])
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptData):
            decode(bytes(damaged))
