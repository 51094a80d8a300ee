"""The records of share partitions: there and back, and as Kafka's own tool reads them."""

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.groups.share.partitions.ranges import RecordState, StateBatch
from strom.coordination.groups.share.partitions.records import (
    ShareKey,
    ShareSnapshot,
    ShareStateDeleted,
    ShareUpdate,
    decode,
    encode,
)
from strom.model.errors import CorruptData
from strom.wire.kafka.records import Record, build_batch
from tools import kafka

offsets = st.integers(0, 2**62)
counts = st.integers(0, 2**31 - 1)
keys = st.builds(ShareKey, st.text(max_size=20), st.binary(min_size=16, max_size=16), counts)
written_states = st.sampled_from(
    [RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED]
)
batches = st.lists(
    st.builds(StateBatch, offsets, offsets, written_states, st.integers(0, 100)), max_size=5
).map(tuple)
snapshots = st.builds(
    ShareSnapshot,
    key=keys,
    snapshot_epoch=counts,
    state_epoch=counts,
    leader_epoch=counts,
    start_offset=offsets,
    finished_count=counts,
    created_ms=offsets,
    written_ms=offsets,
    batches=batches,
)
updates = st.builds(
    ShareUpdate,
    key=keys,
    snapshot_epoch=counts,
    leader_epoch=counts,
    start_offset=offsets,
    finished_count=counts,
    batches=batches,
)
KEY = ShareKey("g", uuid.UUID(int=7).bytes, 3)


@given(st.one_of(snapshots, updates, st.builds(ShareStateDeleted, keys)))
def test_what_is_written_is_read_back(record):
    assert decode(*encode(record)) == record


@given(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=60)))
def test_garbage_is_distinguished_from_records(key, value):
    try:
        decode(key, value)
    except CorruptData:
        pass


def test_records_of_kinds_to_come_are_passed_over():
    assert decode(b"\0\x07whatever", b"") is None


@pytest.mark.oracle
@pytest.mark.slow
def test_kafka_reads_what_is_written(tmp_path):
    """Kafka's own tool for looking into logs knows every field of our records."""
    batch = StateBatch(5, 9, RecordState.ACKNOWLEDGED, 2)
    snapshot = ShareSnapshot(
        key=KEY,
        snapshot_epoch=1,
        state_epoch=2,
        leader_epoch=3,
        start_offset=4,
        finished_count=5,
        created_ms=6,
        written_ms=7,
        batches=(batch,),
    )
    update = ShareUpdate(
        key=KEY,
        snapshot_epoch=1,
        leader_epoch=3,
        start_offset=5,
        finished_count=4,
        batches=(batch,),
    )
    written = (encode(snapshot), encode(update), encode(ShareStateDeleted(KEY)))
    records = [Record(number, 0, *both) for number, both in enumerate(written)]
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(build_batch(records))
    try:
        done = kafka.run_tool(
            "org.apache.kafka.tools.DumpLogSegments",
            *("--files", str(log), "--share-group-state-decoder"),
        )
    except kafka.UnavailableError as reason:
        pytest.skip(f"no Kafka tools: {reason}")
    assert done.returncode == 0, done.stderr
    words = re.sub(r'["\s]', "", done.stdout)
    assert "groupId:g" in words
    assert "stateEpoch:2" in words
    assert words.count("firstOffset:5,lastOffset:9,deliveryState:2,deliveryCount:2") == 2
    assert "deliveryCompleteCount:5" in words
    assert "payload:<DELETE>" in words or "payload:null" in words
