"""Records of consumer groups as bytes: read back as they were, and noise is told from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.groups.consumer.records import (
    ClassicMetadata,
    CurrentAssignment,
    GroupEpoch,
    MemberCurrent,
    MemberState,
    MemberSubscription,
    MemberTarget,
    PatternResolved,
    ResolvedPattern,
    Subscription,
    TargetEpoch,
    TopicIdPartition,
)
from strom.coordination.groups.log_format import decode, encode
from strom.model.errors import CorruptData

names = st.text(max_size=20)
maybe = st.none() | names
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
ids = st.binary(min_size=16, max_size=16)
partitions = st.builds(TopicIdPartition, ids, st.integers(0, 2**31 - 1))
owned = st.dictionaries(partitions, int32, max_size=4)
classic = st.builds(
    ClassicMetadata,
    session_timeout_ms=int32,
    protocols=st.lists(st.tuples(names, st.binary()), max_size=3).map(tuple),
)
subscriptions = st.builds(
    Subscription,
    instance=maybe,
    rack=maybe,
    client_id=names,
    client_host=names,
    topics=st.frozensets(names, max_size=3),
    pattern=maybe,
    rebalance_timeout_ms=int32,
    assignor=maybe,
    classic=st.none() | classic,
)
standings = st.builds(
    CurrentAssignment,
    epoch=int32,
    previous_epoch=int32,
    state=st.sampled_from(MemberState),
    assigned=owned,
    revoking=owned,
)
resolved = st.builds(
    ResolvedPattern, topics=st.frozensets(names, max_size=3), version=int64, resolved_ms=int64
)
records = st.one_of(
    st.builds(GroupEpoch, names, int32, int64),
    st.builds(GroupEpoch, names, st.none()),
    st.builds(TargetEpoch, names, int32, int64),
    st.builds(TargetEpoch, names, st.none()),
    st.builds(MemberSubscription, names, names, st.none() | subscriptions),
    st.builds(MemberTarget, names, names, st.none() | st.frozensets(partitions, max_size=5)),
    st.builds(MemberCurrent, names, names, st.none() | standings),
    st.builds(PatternResolved, names, names, st.none() | resolved),
)


@given(records)
def test_what_is_written_is_read(record):
    assert decode(*encode(record)) == record


@given(records.map(encode).filter(lambda written: written[1]), st.data())
def test_cut_values_are_recognised(written, data):
    key, value = written
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(CorruptData):
        decode(key, value[:cut])


def test_a_value_that_kafka_has_written_is_read():
    # From the log of Kafka 4.3.1: a member with two partitions since epoch 2.
    topic = bytes(range(16))
    value = (
        b"\0\0" + b"\0\0\0\x02" + b"\0\0\0\x02" + b"\0"
        b"\x02" + topic + b"\x03\0\0\0\x02\0\0\0\x03" + b"\x01\0\x09\x03\0\0\0\x02\0\0\0\x02"
        b"\x01" + b"\0"
    )
    record = decode(b"\0\x08\0\x01g\0\x01m", value)
    owned = {TopicIdPartition(topic, 2): 2, TopicIdPartition(topic, 3): 2}
    assert record == MemberCurrent(
        "g", "m", CurrentAssignment(epoch=2, previous_epoch=2, assigned=owned)
    )
    assert encode(record) == (b"\0\x08\0\x01g\0\x01m", value)


def test_partitions_without_epochs_count_from_the_members_own():
    topic = bytes(16)
    value = (
        b"\0\0" + b"\0\0\0\x05" + b"\0\0\0\x04" + b"\0"
        b"\x02" + topic + b"\x02\0\0\0\x01" + b"\0" + b"\x01" + b"\0"
    )
    record = decode(b"\0\x08\0\x01g\0\x01m", value)
    assert isinstance(record, MemberCurrent)
    assert record.current is not None
    assert record.current.assigned == {TopicIdPartition(topic, 1): 5}


def test_that_a_member_is_not_classic_is_written_as_kafka_writes_it():
    # A struct in a tag that may be null: Kafka writes even the null, as one byte.
    _, value = encode(MemberSubscription("g", "m", Subscription(client_id="c", client_host="h")))
    assert value is not None
    assert value.endswith(b"\x01\x00\x01\x00")
