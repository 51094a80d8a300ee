"""Groups on a disk: what is answered is safe, and what is safe is there after a restart."""

import asyncio
import dataclasses
import errno
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from strom.broker import groups as groups_module
from strom.broker import turns
from strom.broker.groups import Groups, GroupTimers
from strom.broker.state_topic import java_hash
from strom.coordination.groups.commands import (
    CommitOffsets,
    DeleteGroup,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    JoinTimeout,
    LeaveGroup,
    LeavingMember,
    SessionTimeout,
    SyncGroup,
    Timer,
)
from strom.coordination.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatResponse
from strom.coordination.groups.consumer.records import JOIN_EPOCH, LEAVE_EPOCH, NOTHING
from strom.coordination.groups.group import GroupType
from strom.coordination.groups.records import CommittedOffset
from strom.coordination.groups.share.protocol import ShareHeartbeat
from strom.model.errors import ApiError, ErrorCode
from strom.model.settings import DAY_MS
from strom.model.topics import CONSUMER_OFFSETS_TOPIC, TopicPartition
from strom.testing import ManualClock, MemoryFiles
from tests.broker.opened import HeldTurns, Opened, opened

PARTITION = TopicPartition("t", 0)
TOMBSTONES_OF_A_GROUP = 2
"""Of its only offset, and of the group itself."""
_fresh = itertools.count()


class SlowDisk(MemoryFiles):
    """Syncs only when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.may_sync = threading.Event()
        self.may_sync.set()

    def count(self, verb: str) -> OSError | None:
        if verb == "datasync":
            assert self.may_sync.wait(30)
        return super().count(verb)


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


@asynccontextmanager
async def coordinating(
    files: MemoryFiles | None = None, clock: ManualClock | None = None, partitions: int = 3
) -> AsyncIterator[tuple[Opened, Groups]]:
    """A broker that coordinates groups."""
    settings = {
        "offsets_topic_num_partitions": str(partitions),
        "group_initial_rebalance_delay_ms": "0",
    }
    async with opened(files, clock, **settings) as world:
        groups = Groups(world.broker)
        groups.load()
        await groups.topic.ensure()
        if world.broker.find_topic("t") is None:
            await world.broker.create_topic("t", 1, {})
        try:
            yield world, groups
        finally:
            groups.stop()


def commit(group: str, offset: int, now_ms: int = 0) -> CommitOffsets:
    committed = CommittedOffset(offset=offset, committed_ms=now_ms)
    return CommitOffsets(group=group, generation=-1, member="", offsets=((PARTITION, committed),))


def join(group: str, member: str = "") -> JoinGroup:
    return JoinGroup(
        group=group,
        member=member,
        fresh=str(next(_fresh)),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(("range", b""),),
        needs_known_id=False,
    )


async def become_stable(groups: Groups, group: str) -> JoinResponse:
    joined: JoinResponse = await groups.submit(join(group))
    synced = await groups.submit(
        SyncGroup(
            group=group,
            generation=joined.generation,
            member=joined.member,
            assignments=((joined.member, b"all"),),
        )
    )
    assert synced.assignment == b"all"
    return joined


async def committed(groups: Groups, group: str) -> int | None:
    found = await groups.read(group, lambda seen: dict(seen.committed(group)))
    return found[PARTITION].offset if PARTITION in found else None


def test_what_was_answered_survives_the_loss_of_power():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as (world, groups):
            answers = [await groups.submit(commit(f"g{n}", n)) for n in range(20)]
            assert {one.code for one in answers} == {ErrorCode.NONE}
            joined = await become_stable(groups, "members")
            world.broker.directory.fail(OSError("the power went"))
            files.crash()
        async with coordinating(files) as (_, groups):
            assert [await committed(groups, f"g{n}") for n in range(20)] == list(range(20))
            beat = Heartbeat(group="members", generation=1, member=joined.member)
            assert (await groups.submit(beat)).code is ErrorCode.NONE

    run(test())


def test_nothing_is_acknowledged_before_it_is_on_disk():
    async def test():
        files = SlowDisk()
        async with coordinating(files) as (_, groups):
            await groups.submit(commit("g", 1))
            files.may_sync.clear()
            committing = groups.submit(commit("g", 2))
            reading = asyncio.ensure_future(committed(groups, "g"))
            await asyncio.sleep(0.05)
            assert not committing.done()
            assert not reading.done()
            files.may_sync.set()
            assert (await committing).code is ErrorCode.NONE
            assert await reading == 2

    run(test())


def test_a_full_disk_refuses_and_goes_on_when_there_is_room():
    async def test():
        files = MemoryFiles()
        async with coordinating(files, partitions=1) as (world, groups):
            await groups.submit(commit("g", 1))
            files.fail(1, OSError(errno.ENOSPC, "full"), only="append")
            refused = await groups.submit(commit("g", 2))
            assert refused.partitions == {PARTITION: ErrorCode.NOT_COORDINATOR}
            assert await committed(groups, "g") == 1
            files.heal()
            assert (await groups.submit(commit("g", 3))).code is ErrorCode.NONE
            assert await committed(groups, "g") == 3
            assert world.failures == []

    run(test())


def heartbeat_of(kind: GroupType, epoch: int = JOIN_EPOCH) -> ConsumerHeartbeat | ShareHeartbeat:
    if kind is GroupType.SHARE:
        return ShareHeartbeat(group="g", member="m", epoch=epoch, topics=("t",))
    return ConsumerHeartbeat(
        group="g",
        member="m",
        epoch=epoch,
        fresh="never",
        rebalance_timeout_ms=10_000,
        topics=frozenset({"t"}),
        owned=NOTHING,
    )


@pytest.mark.parametrize("kind", [GroupType.CONSUMER, GroupType.SHARE])
@pytest.mark.parametrize("expires", [True, False])
def test_a_member_that_a_full_disk_keeps_in_its_group_goes_when_there_is_room(
    kind, expires, monkeypatch
):
    """No other member could get its partitions."""
    monkeypatch.setattr(groups_module, "RETRY_MS", 10)
    timeout = SessionTimeout("g", "m")

    async def test():
        files = MemoryFiles()
        async with coordinating(files, partitions=1) as (_, groups):
            assert (await groups.submit(heartbeat_of(kind))).code is ErrorCode.NONE
            files.fail(1, OSError(errno.ENOSPC, "full"), only="append")
            if expires:
                groups._on_timer(timeout)
            else:
                left = await groups.submit(heartbeat_of(kind, LEAVE_EPOCH))
                assert left.code is ErrorCode.NOT_COORDINATOR
            assert timeout in groups._timers._running
            files.heal()
            if not expires:
                groups._on_timer(timeout)
            while groups.look().find("g").members:
                await asyncio.sleep(0.001)
            assert timeout not in groups._timers._running

    run(test())


def test_groups_in_a_damaged_partition_are_not_served_and_the_others_are():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as (_, groups):
            for n in range(30):
                await groups.submit(commit(f"g{n}", n))
        (path,) = [
            path
            for path in files.paths()
            if f"{CONSUMER_OFFSETS_TOPIC}-1/" in path and path.endswith(".log")
        ]
        data = bytearray(files.peek(path))
        data[80] ^= 0xFF
        files.poke(path, data)
        async with coordinating(files) as (_, groups):
            for n in range(30):
                if java_hash(f"g{n}") % 3 == 1:
                    with pytest.raises(ApiError) as refused:
                        await committed(groups, f"g{n}")
                    assert refused.value.code is ErrorCode.NOT_COORDINATOR
                    answer = await groups.submit(commit(f"g{n}", 5))
                    assert answer.code is ErrorCode.NOT_COORDINATOR
                else:
                    assert await committed(groups, f"g{n}") == n

    run(test())


def test_offsets_expire_when_a_group_was_empty_for_long_enough():
    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with coordinating(files, clock) as (_, groups):
            joined = await become_stable(groups, "active")
            plain = commit("plain", 7, clock.now_ms())
            await groups.submit(plain)
            active = dataclasses.replace(plain, group="active", generation=1, member=joined.member)
            await groups.submit(active)
            clock.advance(7 * DAY_MS - 1)
            await groups.expire_offsets()
            assert await committed(groups, "plain") == 7
            clock.advance(1)
            await groups.expire_offsets()
            assert await committed(groups, "plain") is None
            assert [one.id for one in groups.look().all_groups()] == ["active"]
            assert await committed(groups, "active") == 7
            leave = LeaveGroup(group="active", leavers=(LeavingMember(joined.member),))
            await groups.submit(leave)
            clock.advance(7 * DAY_MS - 1)
            await groups.expire_offsets()
            assert await committed(groups, "active") == 7
            clock.advance(1)
            await groups.expire_offsets()
            assert list(groups.look().all_groups()) == []
        async with coordinating(files, clock) as (_, groups):
            assert list(groups.look().all_groups()) == []

    run(test())


def test_an_offset_with_its_own_time_goes_when_that_is_over():
    async def test():
        clock = ManualClock()
        async with coordinating(clock=clock) as (_, groups):
            offset = CommittedOffset(offset=7, committed_ms=0, expires_ms=clock.now_ms() + 10)
            await groups.submit(
                CommitOffsets(group="g", generation=-1, member="", offsets=((PARTITION, offset),))
            )
            await groups.expire_offsets()
            assert await committed(groups, "g") == 7
            clock.advance(10)
            await groups.expire_offsets()
            assert await committed(groups, "g") is None

    run(test())


def test_a_deleted_topic_takes_its_offsets_along():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as (world, groups):
            await groups.submit(commit("g", 5))
            await world.broker.delete_topic("t")
            assert await committed(groups, "g") is None
        async with coordinating(files) as (_, groups):
            assert await committed(groups, "g") is None

    run(test())


async def largest_step(work: Coroutine[object, object, None], measure: Callable[[], int]) -> int:
    """By how much a figure changes at most in one turn of the event loop, while work is done."""
    task = asyncio.create_task(work)
    largest, last = 0, measure()
    while not task.done():
        await asyncio.sleep(0)
        largest, last = max(largest, abs(measure() - last)), measure()
    await task
    return largest


@pytest.mark.parametrize("by", ["deletion of the topic", "expiry"])
def test_offsets_of_many_groups_are_deleted_in_turns(monkeypatch, by):
    monkeypatch.setattr(turns, "SLICE_SECONDS", 0)

    async def test():
        clock = ManualClock()
        async with coordinating(clock=clock, partitions=1) as (world, groups):
            names = [f"g-{number}" for number in range(50)]
            await asyncio.gather(*(groups.submit(commit(name, 5)) for name in names))
            end = world.broker.topic(CONSUMER_OFFSETS_TOPIC).partitions[0].log
            clock.advance(8 * DAY_MS)
            work = world.broker.delete_topic("t") if by != "expiry" else groups.expire_offsets()
            assert await largest_step(work, lambda: end.end_offset) <= TOMBSTONES_OF_A_GROUP
            assert [await committed(groups, name) for name in names] == [None] * len(names)

    run(test())


def test_expiry_ends_with_the_deletion_of_the_topic_of_offsets(monkeypatch):
    held = HeldTurns()

    async def test():
        clock = ManualClock()
        async with coordinating(clock=clock, partitions=1) as (world, groups):
            await groups.submit(commit("g", 5))
            await groups.submit(commit("h", 5))
            clock.advance(8 * DAY_MS)
            with monkeypatch.context() as patch:
                patch.setattr(groups_module, "in_turns", held)
                await groups.expire_offsets()
            await world.broker.delete_topic(CONSUMER_OFFSETS_TOPIC)
            await groups.topic.ensure()
            await groups.submit(commit("h", 7, clock.now_ms()))
            await held.go_on()
            assert await committed(groups, "h") == 7

    run(test())


def test_a_stop_ends_the_expiry_and_logs_nothing(monkeypatch, caplog):
    monkeypatch.setattr(turns, "SLICE_SECONDS", 0)

    async def test():
        clock = ManualClock()
        async with coordinating(clock=clock, partitions=1) as (_, groups):
            names = [f"g-{number}" for number in range(50)]
            await asyncio.gather(*(groups.submit(commit(name, 5)) for name in names))
            clock.advance(8 * DAY_MS)
            expiry = asyncio.create_task(groups.expire_offsets())
            await asyncio.sleep(0)
            groups.stop()
            await expiry
            assert caplog.text == ""

    run(test())


class LargeGroup:
    """A consumer group whose assignments are computed in the background."""

    def __init__(self, world: Opened, groups: Groups) -> None:
        self.world = world
        self.groups = groups
        self.epochs: dict[str, int] = {}
        groups.look()._context.assign_at_once = 0

    def send(self, member: str) -> "asyncio.Future[ConsumerHeartbeatResponse]":
        """Send a heartbeat some time after the one before."""
        self.world.clock.advance(1_000)
        return self.groups.submit(
            ConsumerHeartbeat(
                group="large",
                member=member,
                epoch=self.epochs.get(member, JOIN_EPOCH),
                fresh="never",
                rebalance_timeout_ms=10_000,
                topics=frozenset({"wide"}),
                owned=NOTHING,
            )
        )

    async def beat(self, member: str) -> int | None:
        """A heartbeat; how many partitions the response assigns."""
        response = await self.send(member)
        assert response.code is ErrorCode.NONE, response
        self.epochs[member] = response.epoch
        return None if response.assignment is None else len(response.assignment)

    @property
    def group(self):
        return self.groups.look().find_consumer("large")

    async def become_stable(self) -> None:
        while self.group.target_epoch < self.group.epoch:
            await asyncio.sleep(0.001)


@asynccontextmanager
async def with_large_group(
    files: MemoryFiles | None = None,
) -> AsyncIterator[LargeGroup]:
    async with coordinating(files) as (world, groups):
        await world.broker.create_topic("wide", 40, {})
        large = LargeGroup(world, groups)
        assert await large.beat("m") == 40
        yield large


def test_a_large_group_is_assigned_in_turns(monkeypatch):
    monkeypatch.setattr(turns, "SLICE_SECONDS", 0)

    async def test():
        async with with_large_group() as large:
            assert await large.beat("n") == 0
            await large.become_stable()
            assert await large.beat("m") == 20

    run(test())


def test_an_assignment_that_could_not_be_written_is_computed_again(caplog):
    async def test():
        files = MemoryFiles()
        async with with_large_group(files) as large:
            files.fail(2, OSError(errno.ENOSPC, "full"), only="append")
            assert await large.beat("n") == 0
            while "was not written" not in caplog.text:
                await asyncio.sleep(0.001)
            files.heal()
            assert large.group.target("n") == NOTHING
            await large.beat("n")
            await large.become_stable()
            assert await large.beat("m") == 20

    run(test())


def test_an_assignment_that_fails_is_logged_and_those_of_other_groups_go_on(monkeypatch, caplog):
    async def test():
        async with with_large_group() as large:
            coordinator = large.groups.look()
            assign = coordinator.assign

            def fail_one(group, now_ms):
                if group == "broken":
                    raise ValueError("a fault")
                return assign(group, now_ms)

            monkeypatch.setattr(coordinator, "assign", fail_one)
            large.groups._assign_in_turns("broken")
            await large.beat("n")
            async with asyncio.timeout(10):
                await large.become_stable()
            assert "The assignment of group 'broken' failed" in caplog.text
            assert "a fault" in caplog.text

    run(test())


def test_a_stop_ends_an_assignment_and_logs_nothing(monkeypatch, caplog):
    monkeypatch.setattr(turns, "SLICE_SECONDS", 0)

    async def test():
        async with with_large_group() as large:
            joined = large.send("n")
            await asyncio.sleep(0)
            large.groups.stop()
            assert (await joined).code is ErrorCode.NONE
            await asyncio.sleep(0.01)
            assert large.group.target_epoch < large.group.epoch
        assert caplog.text == ""

    run(test())


def test_an_offset_for_a_topic_that_was_recreated_meanwhile_is_refused():
    async def test():
        async with coordinating() as (world, groups):
            former = world.broker.topic("t").topic.id.bytes
            await world.broker.delete_topic("t")
            offset = CommittedOffset(offset=7, committed_ms=0, topic_id=former)
            command = CommitOffsets(
                group="g", generation=-1, member="", offsets=((PARTITION, offset),)
            )
            unknown = {PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert (await groups.submit(command)).partitions == unknown
            await world.broker.create_topic("t", 1, {})
            assert (await groups.submit(command)).partitions == unknown
            assert await committed(groups, "g") is None

    run(test())


def test_a_topic_that_was_deleted_just_before_a_crash_takes_its_offsets_along_too():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as (world, groups):
            await groups.submit(commit("g", 5))
            world.broker.after_topic_deleted.clear()  # as if the crash had come before
            await world.broker.delete_topic("t")
            assert await committed(groups, "g") == 5
        for _ in range(2):
            async with coordinating(files) as (_, groups):
                assert await committed(groups, "g") is None

    run(test())


def test_offsets_of_a_topic_that_was_recreated_do_not_count():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as (world, groups):
            topic_id = world.broker.topic("t").topic.id.bytes
            offset = CommittedOffset(offset=7, committed_ms=0, topic_id=topic_id)
            mine = dataclasses.replace(commit("g", 7), offsets=((PARTITION, offset),))
            await groups.submit(mine)
        async with coordinating(files) as (world, groups):
            assert await committed(groups, "g") == 7
            world.broker.after_topic_deleted.clear()  # as if the crash had come before
            await world.broker.delete_topic("t")
            await world.broker.create_topic("t", 1, {})
        async with coordinating(files) as (_, groups):
            assert await committed(groups, "g") is None

    run(test())


def test_a_deleted_group_stays_deleted():
    async def test():
        files = MemoryFiles()
        async with coordinating(files) as (_, groups):
            await groups.submit(commit("g", 5))
            assert (await groups.submit(DeleteGroup(group="g"))).code is ErrorCode.NONE
        async with coordinating(files) as (_, groups):
            assert groups.look().find("g") is None

    run(test())


def test_without_its_topic_there_is_no_coordinator():
    async def test():
        async with opened() as world:
            groups = Groups(world.broker)
            groups.load()
            assert (await groups.submit(join("g"))).code is ErrorCode.NOT_COORDINATOR
            with pytest.raises(ApiError):
                await committed(groups, "g")
            await asyncio.gather(groups.topic.ensure(), groups.topic.ensure())
            assert await committed(groups, "g") is None

    run(test())


def test_when_its_topic_is_deleted_all_waiting_clients_get_an_error_and_everything_is_forgotten():
    async def test():
        async with coordinating() as (world, groups):
            await become_stable(groups, "g")
            await groups.submit(commit("h", 3))
            waiting = groups.submit(join("g"))
            await world.broker.delete_topic(CONSUMER_OFFSETS_TOPIC)
            assert (await waiting).code is ErrorCode.NOT_COORDINATOR
            assert list(groups.look().all_groups()) == []
            await groups.topic.ensure()
            assert await committed(groups, "h") is None

    run(test())


def test_members_that_wait_for_others_are_released_when_the_broker_stops():
    async def test():
        async with coordinating() as (_, groups):
            await become_stable(groups, "g")
            waiting = groups.submit(join("g"))
            await asyncio.sleep(0)
            assert not waiting.done()
            groups.stop()
            assert (await waiting).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await groups.submit(join("g"))).code is ErrorCode.NOT_COORDINATOR

    run(test())


@pytest.mark.parametrize(
    ("text", "number"), [("", 0), ("a", 97), ("group", 98629247), ("ü€𝄞", 17317530)]
)
def test_texts_are_hashed_as_in_java(text, number):
    assert java_hash(text) == number


def test_the_smallest_number_has_no_opposite():
    assert java_hash("polygenelubricants") == 0


def test_timers_that_expire_together_have_a_turn_each():
    """Other requests are served in between: each may change the assignment of a large group."""

    async def test():
        fired: list[Timer] = []
        timers = GroupTimers(fired.append)
        timers.set({JoinTimeout(f"g{number}"): 1 for number in range(100)})
        time.sleep(0.01)  # noqa: ASYNC251 - all of them expire in the same turn
        before = 0
        while before < 100:
            await asyncio.sleep(0)
            assert len(fired) <= before + 1
            before = len(fired)
        assert fired == [JoinTimeout(f"g{number}") for number in range(100)]

    run(test())


def test_a_timer_that_is_set_again_while_it_waits_for_its_turn_does_not_fire():
    async def test():
        fired: list[Timer] = []

        def on_timer(timer: Timer) -> None:
            fired.append(timer)
            timers.set({JoinTimeout("later"): 60_000, JoinTimeout("cancelled"): None})

        timers = GroupTimers(on_timer)
        names = ("first", "later", "cancelled", "last")
        timers.set({JoinTimeout(name): 1 for name in names})
        while JoinTimeout("last") not in fired:
            await asyncio.sleep(0)
        assert fired == [JoinTimeout("first"), JoinTimeout("last")]
        timers.stop()

    run(test())
