"""Transactions on a disk: what is decided is carried out, whatever happens to partitions and files."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from strom.broker import markers
from strom.broker import transactions as transactions_module
from strom.broker.groups import Groups
from strom.broker.housekeeping import Housekeeping
from strom.broker.partition import Partition
from strom.broker.transactions import Transactions
from strom.coordination.groups.commands import CommitOffsets, ProducerEpoch
from strom.coordination.groups.records import CommittedOffset
from strom.coordination.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    TransactionResponse,
)
from strom.coordination.transactions.states import TransactionState
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from strom.storage.log import Appended
from strom.testing import ManualClock, MemoryFiles
from strom.wire.kafka.records import Record, build_batch
from tests.broker.opened import HeldTurns, Opened, opened, safe

OK = ErrorCode.NONE
NAME = "shop"
GROUP = "readers"
INPUT = TopicPartition("in", 0)
HOUR = 3_600_000


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


class World:
    """A broker with one transactional producer."""

    def __init__(self, world: Opened, groups: Groups, transactions: Transactions) -> None:
        self.broker, self.clock, self.files = world.broker, world.clock, world.files
        self.groups = groups
        self.transactions = transactions
        self.id = self.epoch = -1
        self.sequence = 0

    def partition(self, topic: str = "out") -> Partition:
        return self.broker.topic(topic).partitions[0]

    async def init(self) -> None:
        command = InitProducer(transactional_id=NAME, timeout_ms=60_000, new_producer_id=7)
        self._is_now(await self.transactions.submit(command))

    def _is_now(self, answer: TransactionResponse) -> None:
        assert answer.code is OK, answer
        self.id, self.epoch, self.sequence = answer.producer_id, answer.epoch, 0

    def append(self, *values: bytes, topic: str = "out", admitted: bool = True) -> Appended:
        partition = self.partition(topic)
        if admitted:
            name = partition.log.partition
            self.transactions.admit(NAME, self.id, self.epoch, name, adds=True)
        now_ms = self.clock.now_ms()
        batch = build_batch(
            [Record(index, now_ms, b"key", value) for index, value in enumerate(values)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        self.sequence += len(values)
        return partition.append(batch, now_ms)

    async def produce(self, *values: bytes, topic: str = "out") -> None:
        appended = self.append(*values, topic=topic)
        assert await safe(self.partition(topic), appended) is OK

    async def commit_offset(self, offset: int) -> None:
        partition = self.groups.offsets_partition(GROUP)
        self.transactions.admit(NAME, self.id, self.epoch, partition, adds=True)
        committed = CommittedOffset(offset=offset, committed_ms=self.clock.now_ms())
        answer = await self.groups.submit(
            CommitOffsets(
                group=GROUP,
                generation=-1,
                member="",
                offsets=((INPUT, committed),),
                producer=ProducerEpoch(self.id, self.epoch),
            )
        )
        assert answer.partitions == {INPUT: OK}

    def end(self, *, commit: bool) -> "asyncio.Future[TransactionResponse]":
        return self.transactions.submit(
            EndTransaction(
                transactional_id=NAME,
                producer_id=self.id,
                epoch=self.epoch,
                commit=commit,
                bumps_epoch=True,
            )
        )

    async def ended(self, *, commit: bool) -> None:
        self._is_now(await self.end(commit=commit))

    @property
    def state(self) -> TransactionState:
        known = self.transactions.look().find(NAME)
        assert known is not None
        return known.state

    def committed(self) -> int | None:
        found = self.groups.look().committed(GROUP).get(INPUT)
        return None if found is None else found.offset

    def is_stable(self, topic: str = "out") -> bool:
        log = self.partition(topic).log
        return log.last_stable_offset == log.high_watermark


@asynccontextmanager
async def coordinating(
    files: MemoryFiles | None = None, clock: ManualClock | None = None, **settings: str
) -> AsyncIterator[World]:
    small = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
    async with opened(files, clock, **{**small, **settings}) as world:
        groups = Groups(world.broker)
        groups.load()
        transactions = Transactions(world.broker, groups)
        transactions.load()
        await groups.topic.ensure()
        await transactions.topic.ensure()
        for topic in ("out", "other", "in"):
            if world.broker.find_topic(topic) is None:
                await world.broker.create_topic(topic, 1, {})
        try:
            yield World(world, groups, transactions)
        finally:
            transactions.stop()
            groups.stop()


# --- metrics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_markers_are_not_counted_as_records_of_clients(commit):
    async def test():
        async with coordinating() as world:
            await world.init()
            produced = world.append(b"a", b"b")
            before = world.partition().reading()
            assert before.records_in == 2
            await world.commit_offset(5)
            offsets = world.broker.topic(CONSUMER_OFFSETS_TOPIC).partitions[0]
            offsets_before = offsets.reading()
            await world.ended(commit=commit)
            after = world.partition().reading()
            assert world.partition().log.end_offset == produced.last_offset + 2  # and the marker
            assert (after.records_in, after.bytes_in) == (before.records_in, before.bytes_in)
            assert offsets.reading().records_in == offsets_before.records_in

    run(test())


# --- the disk --------------------------------------------------------------------------------


def test_an_answered_commit_survives_the_loss_of_power():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as world:
            await world.init()
            await world.produce(b"a")
            await world.commit_offset(5)
            await world.ended(commit=True)
            world.broker.directory.fail(OSError("the power went"))
            files.crash()
        async with coordinating(files) as world:
            assert (world.committed(), world.is_stable()) == (5, True)
            assert world.state in (
                TransactionState.COMPLETE_COMMIT,
                TransactionState.PREPARE_COMMIT,
            )

    run(test())


def test_offsets_of_an_open_transaction_are_still_pending_after_a_restart():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as world:
            await world.init()
            await world.commit_offset(5)
        async with coordinating(files) as world:
            assert world.committed() is None
            assert world.groups.look().pending(GROUP) == {INPUT}
            world.clock.advance(HOUR)
            await world.transactions.abort_timed_out()
            await _until(lambda: world.state is TransactionState.COMPLETE_ABORT)
            assert world.groups.look().pending(GROUP) == frozenset()

    run(test())


def test_timeouts_end_with_the_deletion_of_the_topic_of_transactions(monkeypatch):
    held = HeldTurns()

    async def test():
        async with coordinating() as world:
            names = ["first", "second"]
            for number, name in enumerate(names):
                begin = InitProducer(transactional_id=name, timeout_ms=1, new_producer_id=number)
                made = await world.transactions.submit(begin)
                place = world.partition().log.partition
                world.transactions.admit(name, made.producer_id, made.epoch, place, adds=True)
            world.clock.advance(HOUR)
            with monkeypatch.context() as patch:
                patch.setattr(transactions_module, "in_turns", held)
                await world.transactions.abort_timed_out()
            await world.broker.delete_topic(TRANSACTION_STATE_TOPIC)
            await world.transactions.topic.ensure()
            await held.go_on()
            assert not any(world.transactions.look().find(name) for name in names)

    run(test())


def test_markers_of_many_transactions_that_time_out_together_share_the_turns(monkeypatch):
    monkeypatch.setattr(markers, "MAX_AT_ONCE", 1)

    async def test():
        async with coordinating() as world:
            names = [f"t{number}" for number in range(10)]
            place = world.partition().log.partition
            for number, name in enumerate(names):
                begin = InitProducer(transactional_id=name, timeout_ms=1, new_producer_id=number)
                made = await world.transactions.submit(begin)
                world.transactions.admit(name, made.producer_id, made.epoch, place, adds=True)
            world.clock.advance(HOUR)
            await world.transactions.abort_timed_out()
            offsets = [0]
            while offsets[-1] < len(names):
                await asyncio.sleep(0)
                offsets.append(world.partition().log.end_offset)
            assert max(after - before for before, after in pairwise(offsets)) == 1
            find = world.transactions.look().find
            while {find(name).state for name in names} != {TransactionState.COMPLETE_ABORT}:
                await asyncio.sleep(0)

    run(test())


def test_a_marker_that_finds_the_disk_full_is_written_later(monkeypatch):
    monkeypatch.setattr(markers, "RETRY_S", 0.01)

    async def test():
        async with coordinating() as world:
            await world.init()
            await world.produce(b"a")
            await world.produce(b"b", topic="other")
            ending = world.end(commit=True)
            # The decision is one append, made already; the markers are the next ones.
            world.files.fail(1, OSError(errno.ENOSPC, "full"), only="append")
            answer = await ending
            assert answer.code is OK
            assert world.files.has_failed
            assert world.is_stable("out")
            assert world.is_stable("other")
            assert world.state is TransactionState.COMPLETE_COMMIT

    run(test())


def test_a_topic_is_deleted_while_the_abort_of_an_unknown_transaction_in_it_is_retried(
    monkeypatch, caplog
):
    monkeypatch.setattr(markers, "RETRY_S", 0.01)

    async def test():
        files = MemoryFiles()
        async with coordinating(files) as world:
            await world.init()
            appended = world.append(b"unknown", topic="other", admitted=False)
            assert await safe(world.partition("other"), appended) is OK
        async with opened(files, offsets_topic_num_partitions="1") as world:
            groups = Groups(world.broker)
            groups.load()
            transactions = Transactions(world.broker, groups)
            files.fail(1, errno.ENOSPC, sticky=True, only="append")
            transactions.load()
            files.heal()
            assert "will be retried" in caplog.text
            caplog.clear()
            await world.broker.delete_topic("other")
            await asyncio.sleep(0.05)
            assert world.failures == []
            assert "will be retried" not in caplog.text

    run(test())


@pytest.mark.parametrize("commit", [True, False])
def test_the_outcome_reaches_a_partition_that_was_offline_meanwhile(commit, monkeypatch):
    monkeypatch.setattr(markers, "RETRY_S", 0.01)

    async def test():
        files = MemoryFiles()
        async with coordinating(files) as world:
            await world.init()
            await world.produce(b"a")
            await world.produce(b"b", topic="other")
            guard = world.partition("other").log._guard
            guard.quarantined = "one of its files is missing"
            ending = world.end(commit=commit)
            await _until(world.is_stable)
            await asyncio.sleep(0.05)
            assert ending.done() is not commit, "what is acknowledged must not be lost"
            guard.quarantined = None  # for the clean stop; the file is back at the next start
            world.transactions.stop()
        async with coordinating(files) as world:
            complete = (
                TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
            )
            await _until(lambda: world.state is complete)
            for topic in ("out", "other"):
                log = world.partition(topic).log
                await _until(lambda log=log: not log.has_open_transactions)
                aborted = log.reader.aborted_between(0, log.end_offset)
                assert bool(aborted) is not commit

    run(test())


def test_records_that_were_aborted_while_their_partition_was_offline_are_never_committed():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as world:
            await world.init()
            await world.produce(b"aborted", topic="other")
            guard = world.partition("other").log._guard
            guard.quarantined = "one of its files is missing"
            await world.ended(commit=False)
            with pytest.raises(ApiError) as refused:
                world.append(b"next", topic="other")
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            add = AddPartitions(
                transactional_id=NAME,
                producer_id=world.id,
                epoch=world.epoch,
                partitions=frozenset({world.partition("other").log.partition}),
            )
            assert (await world.transactions.submit(add)).code is ErrorCode.KAFKA_STORAGE_ERROR
            await world.produce(b"next")
            await world.ended(commit=True)
            guard.quarantined = None  # for the clean stop; the file is back at the next start
        async with coordinating(files) as world:
            log = world.partition("other").log
            await _until(lambda: not log.has_open_transactions)
            assert log.reader.aborted_between(0, log.end_offset)

    run(test())


def test_a_commit_no_longer_waits_for_a_partition_that_was_deleted(monkeypatch):
    monkeypatch.setattr(markers, "RETRY_S", 0.01)

    async def test():
        async with coordinating() as world:
            await world.init()
            await world.produce(b"a", topic="other")
            world.partition("other").log._guard.quarantined = "one of its files is missing"
            ending = world.end(commit=True)
            await asyncio.sleep(0.05)
            assert not ending.done()
            await world.broker.delete_topic("other")
            assert (await ending).code is OK
            assert world.state is TransactionState.COMPLETE_COMMIT

    run(test())


def test_a_decision_that_cannot_be_written_is_not_made():
    async def test():
        async with coordinating() as world:
            await world.init()
            await world.produce(b"a")
            world.files.fail(1, OSError(errno.ENOSPC, "full"), only="append")
            answer = await world.end(commit=True)
            assert answer.code is not OK
            assert world.state is TransactionState.ONGOING
            await world.ended(commit=True)
            assert world.is_stable()

    run(test())


def test_batches_of_an_unknown_transaction_are_aborted_at_the_start():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as world:
            await world.init()
            world.append(
                b"a", admitted=False
            )  # as if what admitted it had been lost with the power
            epoch = world.epoch
        async with coordinating(files) as world:
            assert not world.partition().log.has_open_transactions
            (producer,) = world.partition().log.producers()
            assert producer.producer_epoch == epoch + 1
            world.id, world.epoch, world.sequence = producer.producer_id, epoch, 0
            with pytest.raises(ApiError) as refused:
                world.append(b"a")  # it must not be taken for the one that was aborted
            assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH

    run(test())


# --- topics come and go ----------------------------------------------------------------------


def test_a_topic_that_was_deleted_meanwhile_is_left_out():
    async def test():
        async with coordinating() as world:
            await world.init()
            await world.produce(b"a")
            await world.produce(b"b", topic="other")
            await world.broker.delete_topic("other")
            await world.ended(commit=True)
            assert world.is_stable("out")

    run(test())


def test_when_its_own_topic_is_deleted_all_waiting_clients_get_an_error():
    async def test():
        async with coordinating() as world:
            await world.init()
            await world.produce(b"a")
            await world.broker.delete_topic(TRANSACTION_STATE_TOPIC)
            assert (await world.end(commit=True)).code is ErrorCode.NOT_COORDINATOR
            with pytest.raises(ApiError):
                world.append(b"b")

    run(test())


def test_after_a_stop_nothing_is_taken_on():
    async def test():
        async with coordinating() as world:
            await world.init()
            await world.produce(b"a")
            world.transactions.stop()
            assert (await world.end(commit=True)).code is ErrorCode.NOT_COORDINATOR

    run(test())


# --- background work -------------------------------------------------------------------------


async def _compact(world: World, topic: str) -> None:
    """Close the active segment, and compact whatever can be."""
    housekeeping = Housekeeping(world.broker)
    for _ in range(3):
        world.clock.advance(2)
        partition = world.partition(topic)
        partition.log.roll_if_due(world.clock.now_ms())
        partition.sync_soon()
        await asyncio.sleep(0)
        await world.broker.commit.finish_round()
        await housekeeping.compact()


COMPACTING = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def test_committed_offsets_are_found_after_compaction_and_a_restart():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as world:
            await world.broker.set_topic_configs(CONSUMER_OFFSETS_TOPIC, COMPACTING)
            await world.init()
            for offset in range(5):
                await world.commit_offset(offset)
                await world.ended(commit=offset != 4)
                await _compact(world, CONSUMER_OFFSETS_TOPIC)
            log = world.partition(CONSUMER_OFFSETS_TOPIC).log
            before = log.size_bytes
            await _compact(world, CONSUMER_OFFSETS_TOPIC)
            assert log.size_bytes <= before
        async with coordinating(files) as world:
            assert world.committed() == 3
            assert world.groups.look().pending(GROUP) == frozenset()

    run(test())


def test_compaction_leaves_an_open_transaction_alone():
    async def test():
        async with coordinating() as world:
            await world.broker.set_topic_configs("out", COMPACTING)
            await world.init()
            await world.produce(b"old")
            await world.ended(commit=True)
            await world.produce(b"new")
            await _compact(world, "out")
            data, _ = world.partition().log.reader.read(0, 1 << 20)
            assert b"old" in data
            await world.ended(commit=False)
            await _compact(world, "out")
            data, _ = world.partition().log.reader.read(0, 1 << 20)
            assert b"old" in data, "what was aborted supersedes nothing"

    run(test())


def test_an_idle_producer_with_an_open_transaction_is_not_forgotten():
    async def test():
        async with coordinating() as world:
            await world.init()
            await world.produce(b"a")
            world.clock.advance(1000 * HOUR)
            await Housekeeping(world.broker).delete_old_segments()
            assert world.partition().log.has_open_transactions
            assert world.partition().log.has_producer(world.id)

    run(test())


def test_an_unused_id_is_forgotten_for_good():
    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with coordinating(files, clock) as world:
            await world.init()
            clock.advance(8 * 24 * HOUR)
            await world.transactions.expire()
            assert world.transactions.look().find(NAME) is None
        async with coordinating(files, clock) as world:
            assert world.transactions.look().find(NAME) is None

    run(test())


def test_a_stranger_adds_nothing():
    async def test():
        async with coordinating() as world:
            await world.init()
            answer = await world.transactions.submit(
                AddPartitions(
                    transactional_id="other",
                    producer_id=world.id,
                    epoch=world.epoch,
                    partitions=frozenset({INPUT}),
                )
            )
            assert answer.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    run(test())


async def _until(holds) -> None:
    while not holds():
        await asyncio.sleep(0.01)
