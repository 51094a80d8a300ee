"""Share groups on a disk: what is acknowledged is dealt with for good, what is not comes again."""

import asyncio
import contextlib
import errno
from collections.abc import Iterator
from dataclasses import replace

import pytest

from strom.broker import share_groups, share_state_log, turns
from strom.broker.replaying import records_of
from strom.broker.share_sessions import SessionKey
from strom.coordination.groups.share.partitions.acquisition import Acquired, AcquireLimits
from strom.coordination.groups.share.partitions.records import ShareSnapshot, decode
from strom.coordination.groups.share.partitions.share_partition import (
    Acknowledgement,
    AcknowledgeType,
)
from strom.coordination.groups.share.protocol import ShareHeartbeat
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.model.topics import SHARE_STATE_TOPIC
from strom.storage.region import Region
from strom.testing import ManualClock, MemoryFiles
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import ControlType, Marker, build_batch, build_marker
from strom.wire.kafka.records import Record as WireRecord
from tests.broker.opened import safe
from tests.broker.sharing import GROUP, MEMBER, OTHER, Sharing, sharing, values_of
from tests.broker.test_groups import SlowDisk

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


async def pause() -> None:
    """For administration: no other work is to be done."""


async def put(it: Sharing, *values: bytes) -> None:
    await it.world.produce(it.source, *values)


# --- damage ------------------------------------------------------------------------------------


def flip(files: MemoryFiles, byte: int, *batches: int) -> None:
    """Change a bit of some batches of the topic."""
    path = "data/t-0/00000000000000000000.log"
    data = bytearray(files.peek(path))
    starts = [at for at, _ in headers(data)]
    for nth in batches:
        data[starts[nth] + byte] ^= 1
    files.poke(path, data)


async def put_batches(it: Sharing, *values: bytes) -> None:
    for value in values:
        await put(it, value)


async def drain(it: Sharing) -> list[bytes | None]:
    """Acquire and accept until nothing is left."""
    values: list[bytes | None] = []
    while (taken := it.take()).acquired:
        for one in taken.acquired:
            assert await it.acknowledge(one.first, one.last, ACCEPT) is ErrorCode.NONE
        values += values_of(taken)
    return values


@pytest.mark.parametrize("byte", [0, 9, 11, 16, 20, 22, 26, 60, 66])
@pytest.mark.parametrize("damaged", [[0], [2], [4], [1, 2], [0, 4], [0, 1, 2, 3, 4]])
def test_a_damaged_batch_is_archived_and_the_group_goes_on(damaged, byte, caplog):
    async def test():
        files = MemoryFiles()
        async with sharing(files) as it:
            await put_batches(it, b"0", b"1", b"2", b"3", b"4")
        files.sync_all()
        flip(files, byte, *damaged)
        async with sharing(files) as it:
            left = [b"%d" % at for at in range(5) if at not in damaged]
            assert await drain(it) == left
            assert it.shared.lag == 0
            said = caplog.text.count("gets no records of the damaged batch")
            assert 0 < said <= len(damaged)
            assert it.source.reading().damaged_offsets == len(damaged)
            await put(it, b"5")
            assert await drain(it) == [b"5"]
        async with sharing(files) as it:
            assert await drain(it) == [], "what was archived stays so after a restart"
            assert caplog.text.count("gets no records of the damaged batch") == said

    run(test())


def test_records_beside_damage_are_delivered_once_and_redelivered_as_usual():
    async def test():
        files = MemoryFiles()
        async with sharing(files) as it:
            await put_batches(it, b"0", b"1", b"2", b"3")
            assert it.acquired() == [Acquired(0, 3, 1)]
            assert await it.acknowledge(0, 3, RELEASE) is ErrorCode.NONE
        files.sync_all()
        flip(files, 66, 2)
        async with sharing(files) as it:
            assert it.acquired() == [Acquired(0, 0, 2), Acquired(1, 1, 2)], (
                "a failed read was no delivery"
            )
            assert await it.acknowledge(0, 0, ACCEPT) is ErrorCode.NONE
            assert it.acquired(OTHER) == [Acquired(3, 3, 2)]
            assert await it.acknowledge(1, 1, RELEASE) is ErrorCode.NONE
            assert it.acquired(OTHER) == [Acquired(1, 1, 3)]

    run(test())


def test_a_damaged_marker_does_not_archive_the_records_after_it():
    async def test():
        files = MemoryFiles()
        async with sharing(files) as it:
            marker = Marker(ControlType.COMMIT, 0)
            it.source.log.append(
                build_marker(marker, producer_id=7, producer_epoch=0, timestamp=0),
                now_ms=0,
                leader_epoch=0,
                from_client=False,
            )
            await put_batches(it, b"1", b"2")
        files.sync_all()
        flip(files, 26, 0)  # its last offset
        async with sharing(files) as it:
            assert await drain(it) == [b"1", b"2"]

    run(test())


# --- restarts ----------------------------------------------------------------------------------


def test_after_a_restart_accepted_records_stay_away_and_others_come_again():
    async def test():
        files = MemoryFiles()
        async with sharing(files) as it:
            await put(it, b"a", b"b", b"c", b"d", b"e")
            assert it.acquired() == [Acquired(0, 4, 1)]
            assert await it.acknowledge(0, 0, ACCEPT) is ErrorCode.NONE
            assert await it.acknowledge(2, 2, ACCEPT) is ErrorCode.NONE
            assert await it.acknowledge(3, 3, RELEASE) is ErrorCode.NONE
        async with sharing(files) as it:
            assert it.acquired(OTHER) == [
                Acquired(1, 1, 1),  # nothing was heard of its first delivery
                Acquired(3, 3, 2),
                Acquired(4, 4, 1),
            ]

    run(test())


@pytest.mark.parametrize("seed", range(8))
def test_an_answered_acknowledgement_survives_a_power_loss(seed):
    async def test():
        files = MemoryFiles(seed)
        with contextlib.suppress(DirectoryOffline):  # it cannot be closed in good order
            async with sharing(files) as it:
                await put(it, *(b"%d" % number for number in range(20)))
                it.acquired()
                for offset in (0, 1, 2, 7, 9):
                    assert await it.acknowledge(offset, offset, ACCEPT) is ErrorCode.NONE
                files.crash()
        async with sharing(files) as it:
            again = {at for one in it.acquired() for at in range(one.first, one.last + 1)}
            assert again == set(range(20)) - {0, 1, 2, 7, 9}

    run(test())


def test_a_group_begins_where_it_first_began():
    """Were it not written down, records that came before the first acknowledgement could be lost."""

    async def test():
        files = MemoryFiles()
        async with sharing(files) as it:
            await it.set_configs(share_auto_offset_reset="latest")
            await put(it, b"old")
            assert it.acquired() == []
            await put(it, b"new")
        async with sharing(files) as it:
            assert it.acquired() == [Acquired(1, 1, 1)]

    run(test())


def test_deliveries_are_counted_over_restarts():
    async def test():
        files = MemoryFiles()
        for delivery in (1, 2, 3):
            async with sharing(files) as it:
                if delivery == 1:
                    await put(it, b"a")
                assert it.acquired() == [Acquired(0, 0, delivery)]
                assert await it.acknowledge(0, 0, RELEASE) is ErrorCode.NONE

    run(test())


def test_a_snapshot_is_written_now_and_then_and_the_log_before_it_can_go():
    async def test():
        files = MemoryFiles()
        updates = "share_coordinator_snapshot_update_records_per_snapshot"
        async with sharing(files, None, **{updates: "5"}) as it:
            await put(it, *(b"%d" % number for number in range(40)))
            it.acquired()
            for offset in range(0, 40, 2):
                await it.acknowledge(offset, offset, ACCEPT)
            place = it.shares.state_log.partition_of(it.shared.shared.key)
            written = [decode(one.key, one.value) for one in _records(it)]
            assert sum(isinstance(record, ShareSnapshot) for record in written) >= 3
            await it.shares.prune()
            assert place.log.start_offset == it.shared.shared.snapshot_offset > 0
        async with sharing(files) as it:
            again = [at for one in it.acquired() for at in range(one.first, one.last + 1)]
            assert again == list(range(1, 40, 2))

    run(test())


def _records(it: Sharing) -> Iterator[WireRecord]:
    for partition in it.world.broker.topic(SHARE_STATE_TOPIC).partitions:
        yield from records_of(partition.log)


def test_a_long_log_is_cut_off_before_its_time_and_its_segment_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(share_groups, "LONG_FROM_RECORDS", 100)
    monkeypatch.setattr(share_state_log, "CLOSED_FROM_BYTES", 1000)

    async def test():
        updates = "share_coordinator_snapshot_update_records_per_snapshot"
        async with sharing(None, None, **{updates: "5"}) as it:
            await put(it, *(b"x" for _ in range(400)))
            it.acquired(most=400)
            state_log = it.shares.state_log
            place = state_log.partition_of(it.shared.shared.key)
            most = 0
            for offset in range(0, 400, 2):
                await it.acknowledge(offset, offset, ACCEPT)
                await it.shares.prune_if_long()
                most = max(most, state_log.record_count)
            assert place.log.end_offset > 200
            assert most <= 100
            closed = [
                path for path in it.world.files.paths(place.log.folder) if path.endswith(".log")
            ]
            assert len(closed) > 1

    run(test())


def test_a_partition_without_readers_does_not_keep_the_log_from_being_cut():
    async def test():
        async with sharing(share_coordinator_state_topic_num_partitions="1") as it:
            await it.world.broker.create_topic("cold", 1, {})
            await it.groups.submit(_subscribe("cold"))
            cold = it.shares.partition("g", it.world.broker.topic("cold").topic.id.bytes, 0)
            cold.bytes_waiting(1)
            await put(it, *(b"x" for _ in range(1100)))
            it.acquired(most=2000)
            for offset in range(1, 1100):
                it.shared.acknowledge(MEMBER, [_accepted(offset)], lambda _: None)
            await it.acknowledge(0, 0, ACCEPT)
            place = it.shares.state_log.partition_of(cold.shared.key)
            assert cold.shared.snapshot_offset < 5
            await it.shares.prune()
            await it.shares.places("g", [(cold.shared.key.topic_id, 0)])
            await it.shares.prune()
            assert place.log.start_offset > 500

    run(test())


def _subscribe(*topics: str) -> ShareHeartbeat:
    return ShareHeartbeat(group="g", member=MEMBER, epoch=0, topics=("t", *topics))


def _accepted(offset: int) -> Acknowledgement:
    return Acknowledgement(offset, offset, [ACCEPT])


# --- time --------------------------------------------------------------------------------------


def test_a_lock_times_out_by_itself_and_waiting_fetches_complete():
    async def test():
        async with sharing() as it:
            await it.set_configs(share_record_lock_duration_ms="1000")
            await put(it, b"a")
            it.acquired()
            woken = asyncio.Event()

            class Waiter:
                def partition_changed(self) -> None:
                    woken.set()

            it.shared.wait_for_records(Waiter())
            await asyncio.wait_for(woken.wait(), 10)
            assert it.acquired(OTHER) == [Acquired(0, 0, 2)]
            with pytest.raises(ApiError) as refused:
                await it.acknowledge(0, 0, ACCEPT)
            assert refused.value.code is ErrorCode.INVALID_RECORD_STATE

    run(test())


# --- the log -----------------------------------------------------------------------------------


def test_large_batches_are_left_in_their_file_and_end_at_a_batch():
    async def test():
        async with sharing() as it:
            for _ in range(6):
                await put(it, *(b"x" * 1000 for _ in range(40)))
            handout = it.take(most=100)
            assert isinstance(handout.records, Region)
            assert handout.acquired == [Acquired(0, 119, 1)]
            assert len(values_of(handout)) == 120

    run(test())


def test_no_more_bytes_than_asked_for_but_one_batch_in_any_case():
    async def test():
        async with sharing() as it:
            for _ in range(4):
                await put(it, b"x" * 1000)
            assert it.take(max_bytes=10).acquired == [Acquired(0, 0, 1)]
            assert it.take(max_bytes=2500).acquired == [Acquired(1, 2, 1)]
            nothing = it.shared.acquire(MEMBER, _limits(5), 10, at_least_one=False)
            assert nothing.acquired == []

    run(test())


def _limits(most: int) -> AcquireLimits:
    return AcquireLimits(most, most)


def test_records_that_the_log_has_lost_are_passed_over():
    async def test():
        async with sharing() as it:
            for value in (b"a", b"b", b"c", b"d"):
                await put(it, value)
            it.acquired(most=2)
            it.source.delete_before(3)
            assert it.acquired(OTHER) == [Acquired(3, 3, 1)]
            assert await it.acknowledge(0, 1, ACCEPT) is ErrorCode.NONE

    run(test())


def test_a_log_that_begins_within_an_empty_batch_is_read():
    async def test():
        async with sharing() as it:
            log, now_ms = it.source.log, it.world.clock.now_ms()
            log.change_settings(
                replace(log.settings, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0)
            )
            records = [WireRecord(at, now_ms, b"k", b"old") for at in range(5)]
            await _append(
                it, build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0)
            )
            await _append(it, build_batch([WireRecord(0, now_ms, b"k", b"new")]))
            log.roll_if_larger(0, now_ms)
            await _append(it, build_batch([WireRecord(0, now_ms, b"other", b"last")]))
            compaction = log.plan_compaction(now_ms)
            compaction.run()
            log.apply_compaction(compaction)
            assert [one.record_count for one in log.reader.headers_from(0)] == [0, 1]
            log.delete_before(2)
            assert await drain(it) == [b"new", b"last"]

    run(test())


def test_a_deleted_topic_is_forgotten_and_another_of_its_name_is_new():
    async def test():
        files = MemoryFiles()
        async with sharing(files) as it:
            await put(it, b"a", b"b")
            it.acquired()
            await it.acknowledge(0, 0, ACCEPT)
            old = it.shared
            await it.world.broker.delete_topic("t")
            with pytest.raises(ApiError):
                old.acquire(MEMBER, _limits(5), 100, at_least_one=True)
            await it.world.broker.create_topic("t", 1, {})
            await it.join()
            await put(it, b"new")
            assert it.acquired() == [Acquired(0, 0, 1)]
        async with sharing(files) as it:
            assert it.acquired() == [Acquired(0, 0, 1)]

    run(test())


def test_pruning_keeps_what_is_stored_of_a_group_that_begins_meanwhile(monkeypatch):
    monkeypatch.setattr(turns, "SLICE_SECONDS", 0)
    monkeypatch.setattr(share_groups, "COLD_AFTER_RECORDS", 0)

    async def test():
        files = MemoryFiles()
        async with sharing(files, share_coordinator_state_topic_num_partitions="1") as it:
            await put(it, *[b"x"] * 10)
            topic_id = it.world.broker.topic("t").topic.id.bytes
            for number in range(20):
                await it.shares.move(f"old-{number}", {(topic_id, 0): 0}, pause)
            pruning = asyncio.create_task(it.shares.prune())
            await asyncio.sleep(0)
            it.acquired(most=5)
            assert not pruning.done()
            assert await it.acknowledge(0, 4, ACCEPT) is ErrorCode.NONE
            await pruning
        async with sharing(files, share_coordinator_state_topic_num_partitions="1") as it:
            assert it.acquired() == [Acquired(5, 9, 1)]

    run(test())


def test_damage_in_one_partition_of_the_state_does_not_stop_the_pruning_of_others(monkeypatch):
    monkeypatch.setattr(share_groups, "COLD_AFTER_RECORDS", 0)

    async def test():
        async with sharing() as it:
            topic_id = it.world.broker.topic("t").topic.id.bytes
            for _ in range(2):
                for number in range(20):
                    await it.shares.move(f"g-{number}", {(topic_id, 0): 0}, pause)
            damaged, intact = it.world.broker.topic(SHARE_STATE_TOPIC).partitions
            it.shares.state_log._topic._unreadable.add(damaged)
            await it.shares.prune()
            await it.world.broker.commit.finish_all()
            await it.shares.prune()
            assert damaged.log.start_offset == 0
            assert intact.log.start_offset > 0

    run(test())


def test_the_late_end_of_a_session_releases_nothing_that_the_next_one_has_acquired():
    async def test():
        async with sharing() as it:
            await put(it, b"a", b"b")
            place = (it.world.broker.topic("t").topic.id.bytes, 0)
            key = SessionKey(GROUP, MEMBER)
            first = it.shares.sessions.begin(key)
            first.touched[place] = None
            it.shares.sessions.end(key)
            second = it.shares.sessions.begin(key)
            assert it.acquired() == [Acquired(0, 1, 1)]
            it.shares.session_ended(first)
            assert await it.acknowledge(0, 1, ACCEPT) is ErrorCode.NONE
            assert second.touched == {place: None}

    run(test())


def test_a_stop_does_not_wait_for_dead_letters_that_wait_for_the_disk():
    async def test():
        files = SlowDisk()
        async with sharing(files) as it:
            await put(it, b"a", b"b")
            await it.world.broker.create_topic("dlq.t", 1, {})
            await it.set_configs(errors_deadletterqueue_topic_name="dlq.t")
            it.acquired()
            assert await it.acknowledge(0, 0, REJECT) is ErrorCode.NONE
            files.may_sync.clear()
            rejecting = asyncio.create_task(it.acknowledge(1, 1, REJECT))
            await asyncio.sleep(0.05)
            it.groups.stop()
            it.shares.stop()
            await asyncio.sleep(0)
            files.may_sync.set()
            await asyncio.wait_for(it.world.broker.close(), 10)
            rejecting.cancel()

    run(test())


# --- transactions ------------------------------------------------------------------------------


async def _append(it: Sharing, batch: bytearray) -> None:
    appended = it.source.append(batch, it.world.clock.now_ms(), from_client=False)
    assert await safe(it.source, appended) is ErrorCode.NONE


async def _transaction(it: Sharing, producer: int, outcome: ControlType | None) -> None:
    record = WireRecord(0, it.world.clock.now_ms(), None, b"%d" % producer)
    await _append(
        it,
        build_batch(
            [record], producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
        ),
    )
    if outcome is not None:
        marker = Marker(outcome, coordinator_epoch=0)
        await _append(it, build_marker(marker, producer_id=producer, producer_epoch=0))


def test_markers_are_nobodys_records():
    async def test():
        async with sharing() as it:
            await _transaction(it, 1, ControlType.ABORT)
            await _transaction(it, 2, ControlType.COMMIT)
            assert it.acquired() == [Acquired(0, 0, 1), Acquired(2, 2, 1)]
            assert await it.acknowledge(0, 0, ACCEPT) is ErrorCode.NONE
            assert await it.acknowledge(2, 2, ACCEPT) is ErrorCode.NONE
            await put(it, b"x")
            assert it.acquired() == [Acquired(4, 4, 1)]
            assert it.shared.shared.partition.start_offset == 4

    run(test())


def test_only_committed_records_if_the_group_wants_it():
    async def test():
        async with sharing() as it:
            await it.set_configs(share_isolation_level="read_committed")
            await _transaction(it, 1, ControlType.ABORT)
            await _transaction(it, 2, ControlType.COMMIT)
            await _transaction(it, 3, None)
            await put(it, b"after")
            assert it.acquired() == [Acquired(2, 2, 1)]
            marker = Marker(ControlType.COMMIT, coordinator_epoch=0)
            await _append(it, build_marker(marker, producer_id=3, producer_epoch=0))
            assert it.acquired() == [Acquired(4, 5, 1)]

    run(test())


def test_a_log_of_nothing_but_aborted_records_is_passed_over():
    async def test():
        async with sharing() as it:
            await it.set_configs(share_isolation_level="read_committed")
            for producer in range(1, 20):
                await _transaction(it, producer, ControlType.ABORT)
            assert it.acquired() == []
            await put(it, b"x")
            assert it.acquired() == [Acquired(38, 38, 1)]

    run(test())


# --- trouble -----------------------------------------------------------------------------------


def test_a_full_disk_refuses_an_acknowledgement_and_the_next_one_counts():
    async def test():
        files = MemoryFiles()
        with contextlib.suppress(DirectoryOffline):  # it cannot be closed in good order
            async with sharing(files) as it:
                await put(it, b"a", b"b")
                it.acquired()
                files.fail(1, errno.ENOSPC, only="append")
                assert await it.acknowledge(0, 0, ACCEPT) is not ErrorCode.NONE
                files.heal()
                assert await it.acknowledge(1, 1, ACCEPT) is ErrorCode.NONE
                files.kill()
        async with sharing(files) as it:
            assert it.acquired() == []

    run(test())


def test_a_clock_that_jumps_does_not_end_locks():
    async def test():
        clock = ManualClock()
        async with sharing(clock=clock) as it:
            await put(it, b"a")
            it.acquired()
            clock.advance(1_000_000_000)
            assert it.acquired(OTHER) == []

    run(test())
