"""Classic groups on the wire: membership, responses and errors."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance import calls
from tests.conformance.batches import batch
from tests.conformance.calls import Topic, produce
from tests.conformance.members import GroupMember, find_coordinator, subscription
from tests.conformance.raw import RawClient
from tests.conftest import Target

OK = ErrorCode.none
NewMember = Callable[..., GroupMember]


@pytest.fixture
def group(client: RawClient, topic: str) -> str:
    """A group of one's own."""
    find_coordinator(client, topic)
    return topic


@pytest.fixture
def new_member(target: Target, group: str) -> Iterator[NewMember]:
    """Makes members of the group that have yet to join."""
    with ExitStack() as opened:
        yield lambda instance=None: opened.enter_context(
            GroupMember(target.bootstrap_servers, group, instance)
        )


def describe(client: RawClient, group: str, version: int = 6) -> Any:
    (answer,) = client.call(
        "describe_groups", version, groups=[group], include_authorized_operations=True
    ).groups
    return answer


def join_together(*members: GroupMember) -> list[Any]:
    """Have members join the next generation, all at once."""
    for member in members:
        member.begin_join()
    return [member.end_join() for member in members]


def two_stable(new_member: NewMember, *instances: str) -> tuple[GroupMember, GroupMember]:
    """A leader and a follower with their shares."""
    names = instances or (None, None)
    first, second = (new_member(name) for name in names)
    first.become_stable()
    if second.instance is None:
        second.get_id()
    second.begin_join()
    while first.heartbeat() != ErrorCode.rebalance_in_progress:
        pass
    first.begin_join()
    assert [first.end_join().error_code, second.end_join().error_code] == [OK, OK]
    share(first, second)
    return first, second


def share(leader: GroupMember, follower: GroupMember) -> None:
    waiting = follower.begin_sync()
    shares = {leader.id: b"leader's", follower.id: b"follower's"}
    assert leader.sync(shares).assignment == b"leader's"
    assert follower.end_sync(waiting).assignment == b"follower's"


def test_a_new_member_first_gets_its_id(new_member: NewMember) -> None:
    member = new_member()
    answer = member.ask_to_join()
    assert (answer.error_code, answer.generation_id) == (ErrorCode.member_id_required, -1)
    assert answer.member_id.startswith("conformance-")
    assert (answer.leader, answer.protocol_name, answer.members) == ("", None, ())
    answer = member.ask_to_join()
    assert (answer.error_code, answer.generation_id) == (OK, 1)
    assert answer.leader == answer.member_id == member.id
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [(one.member_id, one.metadata) for one in answer.members] == [
        (member.id, subscription("t"))
    ]


def test_an_old_client_joins_at_once(new_member: NewMember) -> None:
    answer = new_member().ask_to_join(version=3)
    assert (answer.error_code, answer.generation_id) == (OK, 1)


def test_a_lone_member_gets_what_it_gives_itself(client: RawClient, new_member: NewMember) -> None:
    member = new_member()
    member.become_stable()
    assert member.heartbeat() == OK
    described = describe(client, member.group)
    assert (described.group_state, described.protocol_type) == ("Stable", "consumer")
    assert described.protocol_data == "range"
    (one,) = described.members
    assert (one.member_id, one.client_id, one.client_host) == (
        member.id,
        "conformance",
        "/127.0.0.1",
    )
    assert (one.member_metadata, one.member_assignment) == (subscription("t"), b"all")


def test_only_the_leader_gets_all_members(client: RawClient, new_member: NewMember) -> None:
    first, second = new_member(), new_member()
    first.become_stable()
    second.get_id()
    second.begin_join()
    while first.heartbeat() != ErrorCode.rebalance_in_progress:
        pass
    assert describe(client, first.group).group_state == "PreparingRebalance"
    first.begin_join()
    leader, follower = first.end_join(), second.end_join()
    assert (leader.generation_id, follower.generation_id) == (2, 2)
    assert leader.leader == follower.leader == first.id
    assert {one.member_id for one in leader.members} == {first.id, second.id}
    assert follower.members == ()
    described = describe(client, first.group)
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    # Subscriptions are not described meanwhile, but members keep their assignments.
    assert {
        (one.member_id, one.member_metadata, one.member_assignment) for one in described.members
    } == {
        (first.id, b"", b"all"),
        (second.id, b"", b""),
    }
    share(first, second)


def test_whom_the_leader_forgets_gets_nothing(new_member: NewMember) -> None:
    member = new_member()
    member.join()
    assert member.sync({"nobody": b"x"}).assignment == b""


def test_shares_that_are_too_large_are_refused_and_the_group_goes_on(
    new_member: NewMember,
) -> None:
    member = new_member()
    member.join()
    answer = member.sync({member.id: bytes(2_000_000)})
    assert answer.error_code == ErrorCode.unknown_server_error
    member.join()
    assert member.sync({member.id: b"less"}).assignment == b"less"


def test_no_client_writes_to_the_offsets_topic(client: RawClient, group: str) -> None:
    answer = produce(client, Topic("__consumer_offsets", None), batch(b"x"))
    assert answer.error_code == ErrorCode.invalid_topic_exception


def test_the_offsets_topic_is_compacted_and_internal(client: RawClient, group: str) -> None:
    described = calls.describe(client, "__consumer_offsets")
    assert (described.is_internal, len(described.partitions)) == (True, 50)
    wanted = {"resource_type": calls.TOPIC_RESOURCE, "resource_name": "__consumer_offsets"}
    wanted |= {"configuration_keys": ["cleanup.policy", "segment.bytes", "compression.type"]}
    (answer,) = client.call("describe_configs", 4, resources=[wanted]).results
    assert {one.name: one.value for one in answer.configs} == {
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
        "compression.type": "producer",
    }


def test_a_second_sync_gets_the_same_share(new_member: NewMember) -> None:
    member = new_member()
    member.become_stable()
    assert member.sync().assignment == b"all"


def test_when_one_leaves_the_rest_rebalances(new_member: NewMember) -> None:
    first, second = two_stable(new_member)
    left = first.leave()
    assert (left.error_code, [one.error_code for one in left.members]) == (OK, [OK])
    assert second.heartbeat() == ErrorCode.rebalance_in_progress
    answer = second.join()
    assert (answer.generation_id, answer.leader) == (3, second.id)


def test_several_leave_at_once_each_on_its_own(client: RawClient, new_member: NewMember) -> None:
    first, second = two_stable(new_member)
    stranger = new_member()
    stranger.id = "nobody"
    left = first.leave(stranger, second)
    assert left.error_code == OK
    assert [one.error_code for one in left.members] == [OK, ErrorCode.unknown_member_id, OK]
    assert describe(client, first.group).group_state == "Empty"


def test_the_last_one_to_leave_leaves_an_empty_group(
    client: RawClient, new_member: NewMember
) -> None:
    member = new_member()
    member.become_stable()
    member.leave()
    described = describe(client, member.group)
    assert (described.group_state, described.members) == ("Empty", ())
    assert described.protocol_type == "consumer"
    assert member.heartbeat() == ErrorCode.unknown_member_id
    again = new_member()
    assert again.join().generation_id == 3


@pytest.mark.parametrize("version", [0, 2])
def test_an_old_client_leaves(new_member: NewMember, version: int) -> None:
    member = new_member()
    member.become_stable()
    fields = {"group_id": member.group, "member_id": member.id}
    assert member.client.call("leave_group", version, **fields).error_code == OK
    again = member.client.call("leave_group", version, **fields)
    assert again.error_code == ErrorCode.unknown_member_id


@pytest.mark.slow
def test_a_silent_member_is_put_out(client: RawClient, new_member: NewMember) -> None:
    first, second = two_stable(new_member)
    waits = 0
    while second.heartbeat() == OK:
        waits += 1
    assert waits, "it was put out at once"
    assert second.join().leader == second.id
    assert [one.member_id for one in describe(client, second.group).members] == [second.id]
    assert first.heartbeat() == ErrorCode.unknown_member_id


def test_the_old_generation_is_over(new_member: NewMember) -> None:
    member = new_member()
    member.become_stable()
    assert member.heartbeat(generation_id=0) == ErrorCode.illegal_generation
    assert member.heartbeat(generation_id=7) == ErrorCode.illegal_generation
    assert member.sync(generation_id=0).error_code == ErrorCode.illegal_generation


def test_a_stranger_is_refused_everywhere(new_member: NewMember) -> None:
    new_member().become_stable()
    stranger = new_member()
    stranger.id, stranger.generation = "nobody", 1
    unknown = ErrorCode.unknown_member_id
    assert stranger.heartbeat() == unknown
    assert stranger.sync().error_code == unknown
    answer = stranger.ask_to_join()
    assert (answer.error_code, answer.member_id) == (unknown, "nobody")


def test_the_members_of_a_missing_group_are_unknown(new_member: NewMember) -> None:
    member = new_member()
    member.id, member.generation = "nobody", 1
    unknown = ErrorCode.unknown_member_id
    assert member.heartbeat() == unknown
    assert member.sync().error_code == unknown
    assert member.ask_to_join().error_code == unknown
    left = member.leave()
    assert (left.error_code, [one.error_code for one in left.members]) == (OK, [unknown])
    old = member.client.call("leave_group", 2, group_id=member.group, member_id="nobody")
    assert old.error_code == unknown


@pytest.mark.parametrize("call", ["ask_to_join", "sync", "heartbeat"])
def test_a_group_needs_a_name(new_member: NewMember, call: str) -> None:
    answer = getattr(new_member(), call)(group_id="")
    assert getattr(answer, "error_code", answer) == ErrorCode.invalid_group_id


def test_no_member_leaves_a_group_without_a_name(client: RawClient, group: str) -> None:
    member = {"member_id": "x", "group_instance_id": None, "reason": None}
    answer = client.call("leave_group", 5, group_id="", members=[member])
    assert answer.error_code == ErrorCode.invalid_group_id


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001, 0])
def test_a_session_must_not_be_too_short_or_too_long(
    new_member: NewMember, timeout_ms: int
) -> None:
    answer = new_member().ask_to_join(session_timeout=timeout_ms)
    assert answer.error_code == ErrorCode.invalid_session_timeout


@pytest.mark.parametrize(
    "changes",
    [{"protocols": []}, {"protocol_type": ""}],
    ids=["no protocol", "no protocol type"],
)
def test_a_member_without_a_protocol_is_refused(
    client: RawClient, new_member: NewMember, changes: dict[str, Any]
) -> None:
    member = new_member()
    answer = member.ask_to_join(**changes)
    assert answer.error_code == ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize(
    "changes",
    [{"protocol_type": "connect"}, {"protocols": [{"name": "other", "metadata": b""}]}],
    ids=["another type", "none in common"],
)
def test_a_member_that_does_not_fit_is_refused(
    new_member: NewMember, changes: dict[str, Any]
) -> None:
    new_member().become_stable()
    answer = new_member().ask_to_join(**changes)
    assert answer.error_code == ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize(
    "changes", [{"protocol_type": "connect"}, {"protocol_name": "other"}], ids=["type", "name"]
)
def test_a_sync_for_another_protocol_is_refused(
    new_member: NewMember, changes: dict[str, Any]
) -> None:
    member = new_member()
    member.join()
    assert member.sync(**changes).error_code == ErrorCode.inconsistent_group_protocol


def test_the_protocol_that_all_know_is_chosen(new_member: NewMember) -> None:
    first, second = new_member(), new_member()
    first.protocols = [("best", b"1"), ("good", b"2")]
    second.protocols = [("good", b"3"), ("odd", b"4")]
    assert first.join().protocol_name == "best"
    second.get_id()
    second.begin_join()
    first.sync(protocol_name="best")
    while first.heartbeat() != ErrorCode.rebalance_in_progress:
        pass
    first.begin_join()
    answer = first.end_join()
    assert answer.protocol_name == second.end_join().protocol_name == "good"
    assert {one.metadata for one in answer.members} == {b"2", b"3"}


def test_a_follower_that_joins_again_unchanged_disturbs_no_other(new_member: NewMember) -> None:
    first, second = two_stable(new_member)
    answer = second.join()
    assert (answer.generation_id, answer.members) == (2, ())
    assert first.heartbeat() == OK


def test_a_follower_that_changes_its_mind_starts_a_rebalance(new_member: NewMember) -> None:
    first, second = two_stable(new_member)
    second.protocols = [("range", subscription("t", "u"))]
    second.begin_join()
    while first.heartbeat() != ErrorCode.rebalance_in_progress:
        pass
    first.begin_join()
    assert (first.end_join().generation_id, second.end_join().generation_id) == (3, 3)


def test_the_leader_that_joins_again_starts_a_rebalance(new_member: NewMember) -> None:
    first, second = two_stable(new_member)
    first.begin_join()
    while second.heartbeat() != ErrorCode.rebalance_in_progress:
        pass
    second.begin_join()
    assert (first.end_join().generation_id, second.end_join().generation_id) == (3, 3)


def test_joining_again_while_assignments_are_awaited_has_the_same_response(
    new_member: NewMember,
) -> None:
    member = new_member()
    first = member.join()
    second = member.join()
    assert second.generation_id == first.generation_id == 1
    assert [one.member_id for one in second.members] == [member.id]


def test_a_sync_is_cut_short_by_a_rebalance(new_member: NewMember) -> None:
    first, second = new_member(), new_member()
    first.become_stable()
    second.get_id()
    second.begin_join()
    while first.heartbeat() != ErrorCode.rebalance_in_progress:
        pass
    first.begin_join()
    first.end_join(), second.end_join()
    waiting = second.begin_sync()
    first.leave()
    assert second.end_sync(waiting).error_code == ErrorCode.rebalance_in_progress


# --- static members ------------------------------------------------------------------------------


def test_a_static_member_joins_at_once(client: RawClient, new_member: NewMember) -> None:
    member = new_member("one")
    answer = member.ask_to_join()
    assert (answer.error_code, answer.generation_id) == (OK, 1)
    assert answer.member_id.startswith("one-")
    assert [one.group_instance_id for one in answer.members] == ["one"]
    member.sync({member.id: b"all"})
    (described,) = describe(client, member.group).members
    assert described.group_instance_id == "one"


@pytest.mark.parametrize(("version", "skips"), [(9, True), (8, False)])
def test_a_static_leader_that_comes_back_keeps_everything(
    new_member: NewMember, version: int, skips: bool
) -> None:
    first, second = two_stable(new_member, "one", "two")
    back = new_member("one")
    answer = back.ask_to_join(version=version)
    assert (answer.error_code, answer.generation_id) == (OK, 2)
    assert answer.member_id != first.id
    if skips:
        assert answer.skip_assignment
        assert answer.leader == back.id
        assert {one.group_instance_id for one in answer.members} == {"one", "two"}
    else:
        assert answer.leader == first.id
        assert answer.members == ()
    assert back.sync().assignment == b"leader's"
    assert second.heartbeat() == OK
    assert first.heartbeat() == ErrorCode.fenced_instance_id
    assert first.sync().error_code == ErrorCode.fenced_instance_id
    assert first.ask_to_join().error_code == ErrorCode.fenced_instance_id


def test_a_static_follower_that_comes_back_keeps_its_share(new_member: NewMember) -> None:
    first, second = two_stable(new_member, "one", "two")
    back = new_member("two")
    answer = back.ask_to_join()
    assert (answer.generation_id, answer.leader) == (2, first.id)
    assert (answer.skip_assignment, answer.members) == (False, ())
    assert back.sync().assignment == b"follower's"
    assert first.heartbeat() == OK
    assert second.heartbeat() == ErrorCode.fenced_instance_id


def test_of_two_with_one_name_the_later_one_stays(new_member: NewMember) -> None:
    first, waits, back = new_member("one"), new_member("two"), new_member("two")
    first.become_stable()
    waits.begin_join()
    while first.heartbeat() != ErrorCode.rebalance_in_progress:
        pass
    back.begin_join()
    assert waits.end_join().error_code == ErrorCode.fenced_instance_id
    first.begin_join()
    assert [first.end_join().error_code, back.end_join().error_code] == [OK, OK]


def test_an_unknown_instance_is_refused(new_member: NewMember) -> None:
    member = new_member()
    member.become_stable()
    assert member.heartbeat(group_instance_id="x") == ErrorCode.unknown_member_id


def test_an_operator_takes_a_static_member_out_by_its_name(new_member: NewMember) -> None:
    first, second = two_stable(new_member, "one", "two")
    ghost, nobody = new_member("two"), new_member("three")
    left = ghost.leave(nobody)
    assert [(one.group_instance_id, one.error_code) for one in left.members] == [
        ("two", OK),
        ("three", ErrorCode.unknown_member_id),
    ]
    assert first.heartbeat() == ErrorCode.rebalance_in_progress
    assert second.heartbeat() == ErrorCode.unknown_member_id


def test_a_member_that_leaves_with_the_wrong_id_is_fenced(new_member: NewMember) -> None:
    new_member("one").become_stable()
    impostor = new_member("one")
    impostor.id = "wrong"
    (left,) = impostor.leave().members
    assert left.error_code == ErrorCode.fenced_instance_id


def test_what_the_client_may_do_with_a_group(client: RawClient, new_member: NewMember) -> None:
    member = new_member()
    member.become_stable()
    assert describe(client, member.group).authorized_operations == EVERYTHING
    nobody = describe(client, member.group + "-x")
    assert nobody.error_code == ErrorCode.group_id_not_found
    assert nobody.group_state == "Dead"
    assert nobody.error_message == f"Group {member.group}-x not found."
    assert describe(client, member.group + "-x", 5).error_code == OK


EVERYTHING = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, delete, describe, describe and alter settings."""
