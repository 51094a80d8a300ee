"""Transactions as bytes: what is written is read, and it is what Kafka writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.transactions.records import (
    NO_EPOCH,
    TransactionDeleted,
    TransactionMetadata,
    decode,
    encode,
)
from strom.coordination.transactions.states import TransactionState
from strom.model.errors import CorruptData
from strom.model.topics import TopicPartition

longs = st.integers(-1, 2**63 - 1)
partitions = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "ü"]), st.integers(0, 9))
)


@st.composite
def transactions(draw):
    state = draw(st.sampled_from(TransactionState))
    return TransactionMetadata(
        transactional_id=draw(st.text(max_size=20)),
        producer_id=draw(longs),
        epoch=draw(st.integers(0, 32767)),
        state=state,
        timeout_ms=draw(st.integers(1, 2**31 - 1)),
        partitions=frozenset() if state is TransactionState.EMPTY else draw(partitions),
        started_ms=draw(longs),
        updated_ms=draw(longs),
        previous_producer_id=draw(longs),
        next_producer_id=draw(longs),
        client_version=draw(st.integers(0, 2)),
    )


@given(transactions())
def test_what_is_written_is_read(record):
    assert decode(*encode(record)) == record


def test_the_epoch_before_is_not_written():
    record = TransactionMetadata(
        transactional_id="t", producer_id=1, epoch=2, timeout_ms=3, updated_ms=4, last_epoch=1
    )
    read = decode(*encode(record))
    assert isinstance(read, TransactionMetadata)
    assert read.last_epoch == NO_EPOCH


def test_a_forgotten_id_is_a_tombstone():
    key, value = encode(TransactionDeleted("t"))
    assert value is None
    assert decode(key, None) == TransactionDeleted("t")


def test_the_bytes_are_kafkas():
    # As Kafka 4.3.1 wrote it for a Java producer with one open partition.
    key = bytes.fromhex("0000000270 31".replace(" ", ""))
    value = bytes.fromhex(
        "0001"  # version
        "0000000000000005" "0003"  # producer id, epoch
        "0000ea60" "01"  # timeout, Ongoing
        "02" "02" "74" "02" "00000001" "00"  # one topic "t" with partition 1
        "000000000000000a" "0000000000000009"  # updated, started
        "02" "00" "08" "0000000000000005" "02" "02" "0002"  # tagged: previous id, client version
    )  # fmt: skip
    record = TransactionMetadata(
        transactional_id="p1",
        producer_id=5,
        epoch=3,
        state=TransactionState.ONGOING,
        timeout_ms=60_000,
        partitions=frozenset({TopicPartition("t", 1)}),
        started_ms=9,
        updated_ms=10,
        previous_producer_id=5,
        client_version=2,
    )
    assert encode(record) == (key, value)
    assert decode(key, value) == record


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\1", b"\0\1" + bytes(14) + b"\x63" + bytes(18)])
def test_bytes_that_are_no_transaction(value):
    key, _ = encode(TransactionDeleted("t"))
    with pytest.raises(CorruptData):
        decode(key, value)


def test_a_kind_of_record_that_is_not_known():
    assert decode(b"\0\7", b"") is None
    with pytest.raises(CorruptData):
        decode(None, b"")
