"""Share groups (KIP-932): their members, and what these are assigned."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.calls import Topic, create_topic
from tests.conformance.members import GroupMember, find_coordinator
from tests.conformance.raw import RawClient
from tests.conformance.sharers import Sharer
from tests.conftest import Target

OK = ErrorCode.none
MakeTopic = Callable[..., Topic]
MakeSharer = Callable[[], Sharer]


@pytest.fixture
def group(client: RawClient, topic: str) -> str:
    find_coordinator(client, topic)
    return topic


@pytest.fixture
def make_sharer(target: Target, group: str) -> Iterator[MakeSharer]:
    made: list[Sharer] = []

    def make() -> Sharer:
        made.append(Sharer(target.bootstrap_servers, group))
        return made[-1]

    yield make
    for one in made:
        one.client.socket.close()


def described(client: RawClient, group: str) -> Any:
    answer = client.call(
        "share_group_describe", 1, group_ids=[group], include_authorized_operations=False
    )
    return answer.groups[0]


def eventually(look: Callable[[], bool], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.1)


def test_a_member_gets_all_partitions(make_sharer: MakeSharer, make_topic: MakeTopic) -> None:
    topic, member = make_topic(3), make_sharer()
    member.join(topic)
    assert member.assignment == {topic.id: [0, 1, 2]}
    assert member.epoch > 0


def test_two_members_share_a_single_partition(
    make_sharer: MakeSharer, make_topic: MakeTopic
) -> None:
    topic, one, other = make_topic(1), make_sharer(), make_sharer()
    one.join(topic)
    other.join(topic)
    assert one.assignment == other.assignment == {topic.id: [0]}


def test_members_divide_partitions_if_there_are_enough(
    make_sharer: MakeSharer, make_topic: MakeTopic
) -> None:
    topic, one, other = make_topic(4), make_sharer(), make_sharer()
    one.join(topic)
    other.join(topic)

    def are_divided() -> bool:
        one.heartbeat()
        other.heartbeat()
        mine, its = one.assignment[topic.id], other.assignment[topic.id]
        return sorted([*mine, *its]) == [0, 1, 2, 3] and len(mine) == len(its) == 2

    eventually(are_divided)


def test_a_topic_that_comes_later_is_assigned_to_its_subscribers(
    client: RawClient,
    make_sharer: MakeSharer,
    make_topic: MakeTopic,
    new_topic_name: Callable[[], str],
) -> None:
    first, member, name = make_topic(1), make_sharer(), new_topic_name()
    member.join(first)
    member.heartbeat([first.name, name])
    later = create_topic(client, name)

    def has_it() -> bool:
        member.heartbeat()
        return later.id in member.assignment

    eventually(has_it)
    assert member.assignment == {first.id: [0], later.id: [0]}


def test_joining_twice_changes_nothing(make_sharer: MakeSharer, make_topic: MakeTopic) -> None:
    topic, member = make_topic(2), make_sharer()
    member.join(topic)
    epoch = member.epoch
    answer = member.heartbeat([topic.name], member_epoch=0)
    assert (answer.error_code, answer.member_epoch) == (OK, epoch)
    assert member.assignment == {topic.id: [0, 1]}


def test_nothing_is_repeated_to_a_member_that_knows_it(
    make_sharer: MakeSharer, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(2), make_sharer()
    member.join(topic)
    answer = member.heartbeat()
    assert (answer.error_code, answer.assignment) == (OK, None)
    assert answer.heartbeat_interval.total_seconds() == 5


def test_a_group_is_described_with_its_members(
    client: RawClient, make_sharer: MakeSharer, make_topic: MakeTopic, group: str
) -> None:
    topic, member = make_topic(2), make_sharer()
    member.join(topic)
    found = described(client, group)
    assert (found.error_code, found.group_state, found.assignor_name) == (OK, "Stable", "simple")
    assert found.group_epoch == found.assignment_epoch == member.epoch
    (one,) = found.members
    assert (one.member_id, one.member_epoch, one.client_id) == (
        member.id,
        member.epoch,
        "conformance",
    )
    assert one.client_host == "/127.0.0.1"
    assert one.subscribed_topic_names == (topic.name,)
    (assigned,) = one.assignment.topic_partitions
    assert (assigned.topic_name, assigned.topic_id) == (topic.name, topic.id)
    assert sorted(assigned.partitions) == [0, 1]


def test_a_group_is_listed_with_its_type(
    client: RawClient, make_sharer: MakeSharer, make_topic: MakeTopic, group: str
) -> None:
    make_sharer().join(make_topic())
    for types in ([], ["share"], ["Share"]):
        listed = client.call("list_groups", 5, states_filter=(), types_filter=types).groups
        (mine,) = [one for one in listed if one.group_id == group]
        assert (mine.group_type, mine.protocol_type, mine.group_state) == (
            "share",
            "share",
            "Stable",
        )
    listed = client.call("list_groups", 5, states_filter=(), types_filter=["consumer"]).groups
    assert group not in [one.group_id for one in listed]


def test_a_group_that_all_have_left_is_empty_and_can_be_deleted(
    client: RawClient, make_sharer: MakeSharer, make_topic: MakeTopic, group: str
) -> None:
    member = make_sharer()
    member.join(make_topic())
    (refused,) = client.call("delete_groups", 2, groups_names=[group]).results
    assert refused.error_code == ErrorCode.non_empty_group
    answer = member.leave()
    assert (answer.error_code, answer.member_epoch) == (OK, -1)
    assert described(client, group).group_state == "Empty"
    (deleted,) = client.call("delete_groups", 2, groups_names=[group]).results
    assert deleted.error_code == OK
    assert described(client, group).error_code == ErrorCode.group_id_not_found


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_epoch": 99}, ErrorCode.fenced_member_epoch),
        ({"member_epoch": -5}, ErrorCode.invalid_request),
        ({"member_id": "stranger", "member_epoch": 5}, ErrorCode.unknown_member_id),
        ({"member_id": "stranger", "member_epoch": -1}, ErrorCode.unknown_member_id),
        ({"member_id": ""}, ErrorCode.invalid_request),
        ({"member_id": "x" * 37}, ErrorCode.invalid_request),
        ({"group_id": ""}, ErrorCode.invalid_request),
        ({"group_id": "not-there", "member_epoch": 3}, ErrorCode.group_id_not_found),
        ({"group_id": "not-there", "member_epoch": -1}, ErrorCode.group_id_not_found),
        ({"member_id": "new", "member_epoch": 0}, ErrorCode.invalid_request),
        (
            {"member_id": "new", "member_epoch": 0, "subscribed_topic_names": []},
            ErrorCode.invalid_request,
        ),
        ({"rack_id": ""}, ErrorCode.invalid_request),
    ],
    ids=repr,
)
def test_a_wrong_heartbeat_gets_kafkas_error_and_the_group_goes_on(
    make_sharer: MakeSharer, make_topic: MakeTopic, fields: dict[str, Any], code: ErrorCode
) -> None:
    topic, member = make_topic(), make_sharer()
    member.join(topic)
    assert member.heartbeat(**fields).error_code == code
    assert member.heartbeat().error_code == OK


def test_a_lost_answer_can_be_asked_for_again(
    make_sharer: MakeSharer, make_topic: MakeTopic
) -> None:
    topic, one, other = make_topic(2), make_sharer(), make_sharer()
    one.join(topic)
    before = one.epoch
    other.join(topic)

    def has_moved() -> bool:
        return bool(one.heartbeat().member_epoch > before)

    eventually(has_moved)
    assert one.heartbeat(member_epoch=before).error_code == OK


def test_groups_of_other_kinds_are_no_share_groups(
    client: RawClient, target: Target, make_sharer: MakeSharer, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic()
    with GroupMember(target.bootstrap_servers, group) as classic:
        classic.become_stable()
        assert make_sharer().heartbeat([topic.name]).error_code == ErrorCode.group_id_not_found
        assert described(client, group).error_code == ErrorCode.group_id_not_found


def test_share_groups_are_no_classic_groups(
    client: RawClient, target: Target, make_sharer: MakeSharer, make_topic: MakeTopic, group: str
) -> None:
    make_sharer().join(make_topic())
    with GroupMember(target.bootstrap_servers, group) as classic:
        assert classic.ask_to_join().error_code == ErrorCode.inconsistent_group_protocol
    answer = client.call("describe_groups", 6, groups=[group], include_authorized_operations=False)
    assert answer.groups[0].error_code == ErrorCode.group_id_not_found


def test_offsets_cannot_be_committed(
    target: Target, make_sharer: MakeSharer, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic()
    make_sharer().join(topic)
    with GroupMember(target.bootstrap_servers, group) as stranger:
        assert stranger.commit(topic, 1) == ErrorCode.group_id_not_found


@pytest.mark.parametrize(
    ("name", "code"), [("", ErrorCode.invalid_group_id), ("x", ErrorCode.group_id_not_found)]
)
def test_what_is_not_there_cannot_be_described(
    client: RawClient, group: str, name: str, code: ErrorCode
) -> None:
    assert described(client, name and f"{group}-{name}").error_code == code


def test_permissions_are_listed_on_request(
    client: RawClient, make_sharer: MakeSharer, make_topic: MakeTopic, group: str
) -> None:
    make_sharer().join(make_topic())
    answer = client.call(
        "share_group_describe", 1, group_ids=[group], include_authorized_operations=True
    )
    assert answer.groups[0].authorized_operations == 3400
