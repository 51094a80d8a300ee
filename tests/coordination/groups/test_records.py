"""Records of groups as bytes: read back as they were, and noise is told from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.groups.log_format import decode, encode
from strom.coordination.groups.records import (
    CommittedOffset,
    GroupDeleted,
    GroupMetadata,
    MemberMetadata,
    OffsetCommitted,
    OffsetDeleted,
)
from strom.model.errors import CorruptData
from strom.model.topics import TopicPartition

names = st.text(max_size=20)
maybe = st.none() | names
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    MemberMetadata,
    names,
    maybe,
    names,
    names,
    st.integers(0, 10**9),
    int32,
    st.binary(),
    st.binary(),
)
groups = st.builds(
    GroupMetadata,
    group=names,
    protocol_type=names,
    generation=int32,
    protocol=maybe,
    leader=maybe,
    since_ms=int64,
    members=st.lists(members, max_size=3).map(tuple),
)
partitions = st.builds(TopicPartition, names, int32)
lasting = st.builds(
    CommittedOffset,
    offset=int64,
    leader_epoch=int32,
    metadata=names,
    committed_ms=int64,
    topic_id=st.binary(min_size=16, max_size=16),
)
expiring = st.builds(
    CommittedOffset,
    offset=int64,
    metadata=names,
    committed_ms=int64,
    expires_ms=st.integers(0, 10**15),
)
records = st.one_of(
    groups,
    st.builds(GroupDeleted, names),
    st.builds(OffsetCommitted, names, partitions, lasting | expiring),
    st.builds(OffsetDeleted, names, partitions),
)


@given(record=records)
def test_what_is_written_is_read_back(record):
    assert decode(*encode(record)) == record


@given(key=st.binary(max_size=30), value=st.none() | st.binary(max_size=60))
def test_noise_is_a_record_or_corrupt_data(key, value):
    try:
        decode(key, value)
    except CorruptData:
        pass


def test_records_of_other_kinds_are_passed_over():
    # Kafka before 4.1 wrote down the topics of a group, and has other kinds of groups besides.
    assert decode(b"\x00\x04\x00\x01g", b"\x00\x00") is None
    assert decode(b"\x00\x11\x00\x01g", b"\x00\x00") is None


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_old_versions_of_offsets_are_read(version):
    body = (7).to_bytes(8, "big")
    body += b"\x00\x00\x00\x02" if version >= 3 else b""
    body += b"\x00\x01m" + (9).to_bytes(8, "big")
    body += (11).to_bytes(8, "big") if version == 1 else b""
    key = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x04"
    record = decode(key, version.to_bytes(2, "big") + body)
    assert record == OffsetCommitted(
        "g",
        TopicPartition("t", 4),
        CommittedOffset(
            offset=7,
            leader_epoch=2 if version >= 3 else -1,
            metadata="m",
            committed_ms=9,
            expires_ms=11 if version == 1 else None,
        ),
    )
