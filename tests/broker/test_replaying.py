"""Replaying a topic: what may be left out changes nothing, and neither does compaction."""

import logging
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from strom.broker.replaying import Replayed, batches_of, committed_records, last_batches_of
from strom.coordination.groups.coordinator import GroupCoordinator
from strom.coordination.groups.log_format import decode, encode
from strom.coordination.groups.pending_offsets import OpenTransaction
from strom.coordination.groups.records import (
    CommittedOffset,
    GroupDeleted,
    GroupMetadata,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
    is_offset_key,
)
from strom.model.broker_settings import BrokerSettings
from strom.model.topics import TopicPartition
from strom.wire.kafka.records import ControlType, Marker, Record, build_batch, build_marker
from tests.storage.world import PARTITION, START_MS, World, batch, undecodable

GROUPS = ("g", "h")
PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
PRODUCERS = (1, 2)

groups, partitions = st.sampled_from(GROUPS), st.sampled_from(PARTITIONS)
offsets = st.builds(CommittedOffset, offset=st.integers(0, 1000), committed_ms=st.just(START_MS))
commits = st.builds(OffsetCommitted, groups, partitions, offsets)
plain_batches = st.lists(
    st.one_of(
        commits,
        commits,
        st.builds(OffsetDeleted, groups, partitions),
        st.builds(GroupDeleted, groups),
        st.builds(
            GroupMetadata,
            group=groups,
            protocol_type=st.just("consumer"),
            generation=st.integers(1, 9),
            protocol=st.none(),
            leader=st.none(),
            since_ms=st.just(START_MS),
        ),
    ),
    min_size=1,
    max_size=3,
)
steps = st.one_of(
    plain_batches,
    st.tuples(st.sampled_from(PRODUCERS), st.lists(commits, min_size=1, max_size=2)),
    st.tuples(st.sampled_from(PRODUCERS), st.sampled_from(ControlType)),
)


def records_of(written: Iterable[GroupRecord]) -> list[Record]:
    return [Record(at, START_MS, *encode(one)) for at, one in enumerate(written)]


def written(history) -> World:
    """A log with such a history: batches, batches of transactions, and how these ended."""
    world = World(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, segment_bytes=400)
    for step in history:
        if isinstance(step, list):
            data = build_batch(records_of(step))
        elif isinstance(step[1], list):
            ids = {"producer_id": step[0], "producer_epoch": 0}
            data = build_batch(records_of(step[1]), transactional=True, **ids)
        else:
            ids = {"producer_id": step[0], "producer_epoch": 0}
            data = build_marker(Marker(step[1], 0), timestamp=START_MS, **ids)
        world.append(data, from_client=False)
    world.flush()
    return world


def replayed(batches: Iterable[Replayed]) -> GroupCoordinator:
    coordinator = GroupCoordinator(BrokerSettings())
    for header, records, marker in batches:
        transaction = None
        if header.is_transactional:
            transaction = OpenTransaction(0, header.producer_id)
        for record in records:
            found = decode(record.key, record.value)
            assert found is not None
            coordinator.replay(found, transaction)
        if marker is not None and transaction is not None:
            committed = marker.type is ControlType.COMMIT
            coordinator.end_transaction(transaction, committed=committed)
    return coordinator


def offsets_in(coordinator: GroupCoordinator) -> list[object]:
    return [
        (group, dict(coordinator.committed(group)), coordinator.pending(group)) for group in GROUPS
    ]


def groups_in(coordinator: GroupCoordinator) -> list[object]:
    return [
        (group.id, group.generation) for name in GROUPS if (group := coordinator.find_classic(name))
    ]


@given(st.lists(steps, max_size=30))
def test_leaving_out_replaced_records_gives_the_same_state(history):
    log = written(history).log
    everything = replayed(batches_of(log))
    last = replayed(last_batches_of(log, is_offset_key))
    assert offsets_in(last) == offsets_in(everything)
    assert groups_in(last) == groups_in(everything)


@given(st.lists(steps, max_size=30), st.booleans())
def test_a_compacted_log_gives_the_same_offsets(history, crashes):
    world = written(history)
    before = offsets_in(replayed(batches_of(world.log)))
    world.log.roll_for_compaction(world.now_ms)
    world.flush()
    world.compact()
    if crashes:
        world.crash()
    assert offsets_in(replayed(batches_of(world.log))) == before
    assert offsets_in(replayed(last_batches_of(world.log, is_offset_key))) == before


def test_of_many_commits_for_a_key_one_is_replayed():
    def commit(offset):
        return OffsetCommitted("g", PARTITIONS[0], CommittedOffset(offset=offset, committed_ms=1))

    log = written([[commit(number), commit(number + 1)] for number in range(50)]).log
    (only,) = last_batches_of(log, is_offset_key)
    assert [decode(one.key, one.value) for one in only.records] == [commit(50)]
    assert sum(len(one.records) for one in last_batches_of(log, lambda _: False)) == 100


def test_records_that_cannot_be_decoded_do_not_hold_up_those_behind_them(caplog):
    world = World()
    world.append(batch(b"before"))
    world.append(undecodable(3))
    world.append(batch(b"after"))
    world.flush()
    with caplog.at_level(logging.ERROR):
        records, after = committed_records(world.log.reader.read(0, 1 << 20), 0, PARTITION)
    assert [(record.offset, record.value) for record in records] == [(0, b"before"), (4, b"after")]
    assert after == 5
    assert f"{PARTITION}: skipped offsets 1 to 3" in caplog.text


def test_records_that_compress_very_well_are_not_taken_for_malformed():
    world = World(segment_bytes=1 << 20)
    world.append(batch(bytes(3 << 20), codec=4))
    world.flush()
    records, _ = committed_records(world.log.reader.read(0, 1 << 20), 0, PARTITION)
    assert [len(record.value or b"") for record in records] == [3 << 20]
