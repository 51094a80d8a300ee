"""The coordinator's limits, and what it forgets."""

import dataclasses
import itertools
from typing import Any

import pytest

from strom.coordination.groups.commands import (
    CommitOffsets,
    DeleteGroup,
    JoinGroup,
    JoinResponse,
    SyncGroup,
)
from strom.coordination.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatResponse
from strom.coordination.groups.records import CommittedOffset
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition
from tests.coordination.groups.world import GroupWorld

_fresh = itertools.count()


def join(world: GroupWorld, member: str = "", **changes) -> int:
    fields: dict[str, Any] = {
        "group": "g",
        "fresh": str(next(_fresh)),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (("range", b""),),
        "needs_known_id": False,
    }
    return world.submit(JoinGroup(member=member, **(fields | changes)))


def test_a_full_group_accepts_no_member():
    world = GroupWorld(group_max_size=2, group_initial_rebalance_delay_ms=0)
    tickets = [join(world) for _ in range(3)]
    assert world.responses[tickets[2]].code is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.wait(0)
    assert [world.responses[one].code for one in tickets[:2]] == [ErrorCode.NONE] * 2
    assert world.responses[join(world)].code is ErrorCode.GROUP_MAX_SIZE_REACHED
    first = world.responses[tickets[0]]
    assert isinstance(first, JoinResponse)
    again = world.responses[join(world, first.member)]
    assert again.code is ErrorCode.NONE, "who has a place keeps it"


@pytest.mark.parametrize(
    "changes", [{"session_timeout_ms": 5_999}, {"protocols": ()}, {"group": ""}], ids=str
)
def test_a_refused_join_leaves_no_group_behind(changes):
    world = GroupWorld()
    assert world.responses[join(world, **changes)].code is not ErrorCode.NONE
    assert list(world.coordinator.all_groups()) == []


def test_ids_that_were_given_out_die_with_their_group():
    world = GroupWorld()
    told = world.responses[join(world, needs_known_id=True)]
    assert isinstance(told, JoinResponse)
    offset = ((TopicPartition("t", 0), CommittedOffset(offset=1, committed_ms=0)),)
    world.submit(CommitOffsets(group="g", generation=-1, member="", offsets=offset))
    assert world.responses[world.submit(DeleteGroup(group="g"))].code is ErrorCode.NONE
    assert world.timers == {}
    assert world.coordinator.committed("g") == {}
    assert world.responses[join(world, told.member)].code is ErrorCode.UNKNOWN_MEMBER_ID


def subscription(*topics: str) -> bytes:
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff" * 4


def expire(world: GroupWorld) -> None:
    for outcome in filter(None, world.coordinator.expire(world.now_ms)):
        world.carry_out(outcome)


def test_offsets_of_topics_that_members_no_longer_read_expire():
    world = GroupWorld(offsets_retention_minutes=1, group_initial_rebalance_delay_ms=0)
    joined = join(world, session_timeout_ms=600_000, protocols=(("range", subscription("t")),))
    world.wait(0)
    response = world.responses[joined]
    assert isinstance(response, JoinResponse)
    member = response.member
    who: dict[str, Any] = {"group": "g", "generation": 1, "member": member}
    world.submit(SyncGroup(**who, assignments=((member, b""),)))
    offsets = tuple(
        (TopicPartition(topic, 0), CommittedOffset(offset=1, committed_ms=world.now_ms))
        for topic in ("t", "u")
    )
    assert (
        world.responses[world.submit(CommitOffsets(**who, offsets=offsets))].code is ErrorCode.NONE
    )
    world.wait(59_000)
    expire(world)
    assert len(world.coordinator.committed("g")) == 2
    world.wait(1_000)
    expire(world)
    assert [one.topic for one in world.coordinator.committed("g")] == ["t"]
    assert world.coordinator.find("g") is not None


def test_offsets_that_a_consumer_group_does_not_read_expire():
    world = GroupWorld(offsets_retention_minutes=1)
    world.change_topics(t=1, u=1)
    beat = ConsumerHeartbeat(
        group="g",
        member="m",
        epoch=0,
        fresh="",
        rebalance_timeout_ms=1000,
        topics=frozenset({"t"}),
        owned=frozenset(),
    )
    response = world.responses[world.submit(beat)]
    assert isinstance(response, ConsumerHeartbeatResponse)
    epoch = response.epoch
    offsets = tuple(
        (TopicPartition(topic, 0), CommittedOffset(offset=1, committed_ms=world.now_ms))
        for topic in ("t", "u")
    )
    world.submit(CommitOffsets(group="g", generation=epoch, member="m", offsets=offsets))
    world.wait(30_000)
    world.submit(dataclasses.replace(beat, epoch=epoch, owned=None))
    world.wait(30_000)
    expire(world)
    assert [one.topic for one in world.coordinator.committed("g")] == ["t"]
    world.wait(60_000)  # its session ends
    expire(world)
    assert world.coordinator.find("g") is None
