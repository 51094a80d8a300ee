"""What members of groups may take in memory."""

import itertools
from typing import Any

import pytest

from strom.coordination.groups.commands import (
    GroupCommand,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from strom.coordination.groups.consumer.commands import ConsumerHeartbeat
from strom.coordination.groups.group_memory import GroupMemory
from strom.coordination.groups.share.protocol import ShareHeartbeat
from strom.model.errors import ApiError, ErrorCode
from tests.coordination.groups.world import GroupWorld

KIB = 1024
FULL = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
TOO_LARGE = ErrorCode.GROUP_MAX_SIZE_REACHED
_fresh = itertools.count()


def join(group: str, size: int, member: str = "", **more: Any) -> JoinGroup:
    fields: dict[str, Any] = {
        "group": group,
        "member": member,
        "fresh": str(next(_fresh)),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (("range", bytes(size)),),
        "needs_known_id": False,
    }
    return JoinGroup(**(fields | more))


def consumer_heartbeat(group: str, size: int) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
        group=group,
        member=f"m{next(_fresh)}",
        epoch=0,
        fresh="",
        rebalance_timeout_ms=1000,
        topics=frozenset({"t" * size}),
        owned=frozenset(),
    )


def share_heartbeat(group: str, size: int) -> ShareHeartbeat:
    return ShareHeartbeat(
        group=group, member=f"m{next(_fresh)}", epoch=0, topics=("t" * size,), client_host="h"
    )


def ask(world: GroupWorld, command: GroupCommand) -> ErrorCode | None:
    """The error code of the response; None if there is no response yet."""
    ticket = world.submit(command)
    return world.responses[ticket].code if ticket in world.responses else None


JOINS = pytest.mark.parametrize("make", [join, consumer_heartbeat, share_heartbeat])


@JOINS
def test_a_group_takes_no_more_than_its_memory(make):
    world = GroupWorld(group_max_bytes=10 * KIB)
    assert ask(world, make("g", 11 * KIB)) is TOO_LARGE
    assert world.coordinator.all_groups() == ()
    assert ask(world, make("g", 6 * KIB)) in (None, ErrorCode.NONE)
    assert ask(world, make("g", 6 * KIB)) is TOO_LARGE
    assert ask(world, make("other", 6 * KIB)) in (None, ErrorCode.NONE)


@JOINS
def test_when_all_groups_together_are_too_large_clients_are_asked_to_retry(make):
    world = GroupWorld(groups_max_bytes=10 * KIB)
    assert ask(world, make("first", 6 * KIB)) in (None, ErrorCode.NONE)
    assert ask(world, make("second", 6 * KIB)) is FULL
    world.wait(10 * 60_000)  # the member sends no heartbeats, and expires
    assert world.coordinator.memory.in_use == 0
    assert ask(world, make("second", 6 * KIB)) in (None, ErrorCode.NONE)


def joined(world: GroupWorld, command: JoinGroup) -> JoinResponse:
    ticket = world.submit(command)
    world.wait(0)
    response = world.responses[ticket]
    assert isinstance(response, JoinResponse)
    return response


def sync(leader: JoinResponse, size: int) -> SyncGroup:
    return SyncGroup(
        group="g",
        generation=leader.generation,
        member=leader.member,
        assignments=((leader.member, bytes(size)),),
    )


def test_a_member_may_rejoin_with_what_it_has_and_leaving_frees_it():
    world = GroupWorld(group_max_bytes=10 * KIB, group_initial_rebalance_delay_ms=0)
    leader = joined(world, join("g", 8 * KIB))
    assert ask(world, sync(leader, 0)) is ErrorCode.NONE
    leader = joined(world, join("g", 8 * KIB, leader.member))
    assert leader.code is ErrorCode.NONE
    assert ask(world, join("g", 20 * KIB, leader.member)) is TOO_LARGE
    assert ask(world, LeaveGroup(group="g", leavers=(LeavingMember(leader.member),))) is (
        ErrorCode.NONE
    )
    assert world.coordinator.memory.in_use == 0


def test_the_assignments_of_a_leader_count_and_replace_the_former_ones():
    world = GroupWorld(group_max_bytes=10 * KIB, group_initial_rebalance_delay_ms=0)
    leader = joined(world, join("g", 10))
    assert ask(world, sync(leader, 20 * KIB)) is TOO_LARGE
    assert ask(world, sync(leader, 7 * KIB)) is ErrorCode.NONE
    assert world.coordinator.memory.in_use > 7 * KIB
    leader = joined(world, join("g", 10, leader.member))
    assert ask(world, sync(leader, 7 * KIB)) is ErrorCode.NONE


def test_a_leader_whose_assignments_exceed_the_memory_of_all_groups_joins_again():
    world = GroupWorld(groups_max_bytes=10 * KIB, group_initial_rebalance_delay_ms=0)
    ask(world, share_heartbeat("other", 5 * KIB))
    leader = joined(world, join("g", 10))
    assert ask(world, sync(leader, 6 * KIB)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_ids_without_a_member_count_too():
    world = GroupWorld(group_max_bytes=10 * KIB)
    waits: dict[str, Any] = {"needs_known_id": True, "client_id": "c" * 4 * KIB}
    assert ask(world, join("g", 0, **waits)) is ErrorCode.MEMBER_ID_REQUIRED
    assert ask(world, join("g", 0, **waits)) is ErrorCode.MEMBER_ID_REQUIRED
    assert ask(world, join("g", 0, **waits)) is TOO_LARGE
    world.wait(10_000)
    assert ask(world, join("g", 0, **waits)) is ErrorCode.MEMBER_ID_REQUIRED


def test_many_empty_names_are_not_free():
    world = GroupWorld(group_max_bytes=10 * KIB)
    assert ask(world, join("g", 0, protocols=(("", b""),) * 200)) is TOO_LARGE


def test_what_a_restart_finds_is_counted_and_stays():
    world = GroupWorld(group_max_bytes=10 * KIB, group_initial_rebalance_delay_ms=0)
    leader = joined(world, join("g", 5 * KIB))
    ask(world, sync(leader, KIB))
    ask(world, consumer_heartbeat("c", KIB))
    ask(world, share_heartbeat("s", KIB))
    held = world.coordinator.memory.in_use
    world.restart()
    assert world.coordinator.memory.in_use == held
    assert ask(world, join("g", 6 * KIB)) is TOO_LARGE


def test_what_does_not_grow_is_allowed_beyond_the_limit():
    memory = GroupMemory(10, 15)
    memory.update("a", 20)
    memory.check("a", 0, FULL)
    with pytest.raises(ApiError) as refused:
        memory.check("b", 1, FULL)
    assert refused.value.code is FULL
    memory.update("a", 0)
    memory.check("b", 10, FULL)
