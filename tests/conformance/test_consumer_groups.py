"""Consumer groups of the new protocol on the wire: who gets what and when, and who is refused."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.calls import Topic, create_topic, wait_for_partitions, wait_until_gone
from tests.conformance.consumer_members import (
    STATIC_LEAVE,
    ConsumerMember,
    all_of,
    describe,
    partitions_fields,
    set_group_config,
    settle,
)
from tests.conformance.members import committed, find_coordinator
from tests.conformance.raw import RawClient
from tests.conftest import Target

OK = ErrorCode.none
NewMember = Callable[..., ConsumerMember]
MakeTopic = Callable[..., Topic]
DEADLINE_S = 30


@pytest.fixture
def group(client: RawClient, topic: str) -> str:
    """A group of one's own."""
    find_coordinator(client, topic)
    return topic


@pytest.fixture
def new_member(target: Target, group: str) -> Iterator[NewMember]:
    """Makes members of the group that have yet to join."""
    with ExitStack() as opened:
        client = opened.enter_context(RawClient(target.bootstrap_servers))
        yield lambda instance=None: ConsumerMember(client, group, instance)


# --- sharing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_alone_gets_everything(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic, version: int
) -> None:
    topic, member = make_topic(4), new_member()
    answer = member.join(topic, version=version)
    assert (answer.member_epoch, answer.heartbeat_interval.seconds) == (2, 5)
    assert member.owns == {topic.id: {0, 1, 2, 3}}
    described = describe(client, member.group, version)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == (
        "Stable",
        2,
        2,
    )
    assert described.assignor_name == "uniform"
    (one,) = described.members
    assert (one.member_id, one.member_epoch, one.client_id) == (member.id, 2, "conformance")
    assert one.subscribed_topic_names == (topic.name,)
    assert one.assignment == one.target_assignment
    (owned,) = one.assignment.topic_partitions
    assert (owned.topic_name, owned.partitions) == (topic.name, (0, 1, 2, 3))
    if version >= 1:
        assert one.member_type == 1


def test_an_old_client_is_given_an_id(new_member: NewMember, make_topic: MakeTopic) -> None:
    member = new_member()
    member.id = ""
    assert member.join(make_topic(), version=0).member_id


def test_nothing_is_sent_that_has_not_changed(new_member: NewMember, make_topic: MakeTopic) -> None:
    member, topic = new_member(), make_topic(2)
    member.join(topic)
    assert member.heartbeat().assignment is None
    everything = member.heartbeat(rebalance_timeout=1000, subscribed_topic_names=[topic.name])
    assert everything.assignment is not None


def test_a_partition_is_given_only_when_the_other_has_let_it_go(
    new_member: NewMember, make_topic: MakeTopic, client: RawClient
) -> None:
    topic, first, second = make_topic(4), new_member(), new_member()
    first.join(topic)
    before = first.owns
    assert second.join(topic).assignment.topic_partitions == ()
    assert describe(client, first.group).group_state == "Reconciling"
    told = first.heartbeat()
    assert (told.member_epoch, first.count(topic)) == (2, 2)
    kept = first.owns
    first.owns = before
    assert first.heartbeat().assignment is None, "it says that it still has them"
    assert second.heartbeat().assignment is None
    first.owns = kept
    assert first.heartbeat().member_epoch == 3
    assert second.heartbeat().assignment is not None
    assert all_of([first, second], topic) == [0, 1, 2, 3]
    assert describe(client, first.group).group_state == "Stable"


def test_what_is_to_be_given_up_is_still_described_as_ones_own(
    new_member: NewMember, make_topic: MakeTopic, client: RawClient
) -> None:
    topic, first, second = make_topic(2), new_member(), new_member()
    first.join(topic)
    second.join(topic)
    first.heartbeat()
    members = {one.member_id: one for one in describe(client, first.group).members}
    (owned,) = members[first.id].assignment.topic_partitions
    (target,) = members[first.id].target_assignment.topic_partitions
    assert (len(owned.partitions), len(target.partitions)) == (2, 1)


def test_who_leaves_makes_room(new_member: NewMember, make_topic: MakeTopic) -> None:
    topic, first, second = make_topic(3), new_member(), new_member()
    first.join(topic)
    second.join(topic)
    settle(first, second)
    assert sorted([first.count(topic), second.count(topic)]) == [1, 2]
    left = first.leave()
    assert (left.error_code, left.member_id, left.member_epoch) == (OK, first.id, -1)
    settle(second)
    assert second.count(topic) == 3


def test_members_with_different_topics_share_evenly(
    new_member: NewMember, make_topic: MakeTopic
) -> None:
    a, b = make_topic(6), make_topic(3)
    both, only_a = new_member(), new_member()
    both.join(a, b)
    only_a.join(a)
    settle(both, only_a)
    assert all_of([both, only_a], a) == [0, 1, 2, 3, 4, 5]
    assert (both.count(b), only_a.count(b)) == (3, 0)
    assert {both.count(a), only_a.count(a)} in ({1, 5}, {2, 4}), "four or five for each"


def test_range_gives_stretches_in_the_order_of_ids(
    new_member: NewMember, make_topic: MakeTopic
) -> None:
    a, b = make_topic(5), make_topic(2)
    members = [new_member() for _ in range(3)]
    for number, member in enumerate(members):
        member.id = f"member-{number}"
        member.join(a, b, server_assignor="range")
    settle(*members, rounds=6)
    assert [member.owns for member in members] == [
        {a.id: {0, 1}, b.id: {0}},
        {a.id: {2, 3}, b.id: {1}},
        {a.id: {4}},
    ]


def test_the_assignor_that_most_ask_for_is_taken(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for assignor in ("range", None, "range", "uniform"):
        new_member().join(topic, server_assignor=assignor)
    assert describe(client, new_member().group).assignor_name == "range"


def test_a_member_that_wants_other_topics_gives_up_the_old_ones(
    new_member: NewMember, make_topic: MakeTopic
) -> None:
    a, b, member = make_topic(2), make_topic(3), new_member()
    member.join(a)
    told = member.heartbeat(subscribed_topic_names=[b.name])
    assert (told.member_epoch, member.owns) == (2, {})
    assert member.heartbeat().member_epoch == 3
    assert member.owns == {b.id: {0, 1, 2}}


# --- topics come, grow and go --------------------------------------------------------------------


def until(member: ConsumerMember, is_so: Callable[[], bool]) -> None:
    """Send heartbeats until something is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, member.owns
        time.sleep(0.05)
        member.heartbeat()


def test_a_topic_that_comes_later_is_assigned(
    client: RawClient, new_member: NewMember, new_topic_name: Callable[[], str]
) -> None:
    name, member = new_topic_name(), new_member()
    member.join(Topic(name, None))
    assert member.owns == {}
    topic = create_topic(client, name, 2)
    until(member, lambda: member.count(topic) == 2)


def test_new_partitions_are_assigned(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(1), new_member()
    member.join(topic)
    grown = {"name": topic.name, "count": 3, "assignments": None}
    client.call("create_partitions", 3, topics=[grown], timeout=10_000, validate_only=False)
    wait_for_partitions(client, topic.name, 3)
    until(member, lambda: member.count(topic) == 3)


def test_a_deleted_topic_is_taken_from_its_owner(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, other, member = make_topic(1), make_topic(1), new_member()
    member.join(topic, other)
    deleted = [{"name": topic.name, "topic_id": None}]
    client.call("delete_topics", 6, topics=deleted, timeout=10_000)
    wait_until_gone(client, topic.name)
    until(member, lambda: member.owns == {other.id: {0}})


# --- patterns ------------------------------------------------------------------------------------


def test_topics_are_found_by_a_pattern(
    client: RawClient, new_member: NewMember, new_topic_name: Callable[[], str]
) -> None:
    prefix, member = new_topic_name(), new_member()
    topic = create_topic(client, f"{prefix}-a", 2)
    create_topic(client, f"other-{prefix}-a")
    member.join(subscribed_topic_names=None, subscribed_topic_regex=f"{prefix}-[ab]")
    until(member, lambda: member.owns == {topic.id: {0, 1}})
    (described,) = describe(client, member.group).members
    assert described.subscribed_topic_regex == f"{prefix}-[ab]"
    later = create_topic(client, f"{prefix}-b", 1)
    until(member, lambda: member.owns == {topic.id: {0, 1}, later.id: {0}})


RIGHT = [
    "a",
    "a.*b|c+?",
    "[a-z_.-]{2,5}",
    "(?i)abc",
    "(?P<name>x)",
    "(?<name>x)",
    "(?i:a)b",
    "[[:alpha:]]+",
    "[^[:digit:]]",
    r"\d\w\s\D\W\S",
    r"\pL\p{Lu}\PN",
    r"\p{Greek}",
    r"^\Aa\z$",
    r"\ba\B",
    r"\Q.*\E",
    r"\x41\x{42}\101\n\t",
    "a{1000}",
    "x{,2}",
    "x{2",
    "[]a]",
    "[a-]",
    r"\.\-\_",
    "a||b",
    "()",
    "(a*)*",
    "(?s).(?-s).",
    "[a-b-c]",
]
WRONG = [
    "a**",
    "a*+",
    "*a",
    "a{1001}",
    "a{2,1}",
    "(a",
    "a)",
    "[a",
    "[z-a]",
    "[[:nope:]]",
    "(?=a)",
    "(?!a)",
    "(?<=a)",
    r"(a)\1",
    r"\8",
    r"\y",
    "\\",
    r"\pX",
    r"\p{Nope}",
    "(?z)a",
    "(?P<>x)",
    "(?P<a",
    r"\x4",
    r"\x{110000}",
    "a++",
    "(?a",
]


@pytest.mark.parametrize("pattern", RIGHT + WRONG, ids=lambda text: text.replace("\\", "/"))
def test_patterns_are_understood_or_refused(new_member: NewMember, pattern: str) -> None:
    answer = new_member().send(
        rebalance_timeout=1000, topic_partitions=[], subscribed_topic_regex=pattern
    )
    refused = ErrorCode.invalid_regular_expression
    assert answer.error_code == (refused if pattern in WRONG else OK), answer.error_message


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"group_id": ""},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout": -1},
        {"topic_partitions": None},
        {"subscribed_topic_names": None},
        {"member_epoch": -3},
        {"member_epoch": STATIC_LEAVE},
        {"member_epoch": -1, "member_id": ""},
        {"member_epoch": 7, "member_id": ""},
    ],
    ids=str,
)
def test_a_request_that_makes_no_sense_is_refused(
    new_member: NewMember, changes: dict[str, Any]
) -> None:
    fields: dict[str, Any] = {
        "rebalance_timeout": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    answer = new_member().send(**(fields | changes))
    assert answer.error_code == ErrorCode.invalid_request
    assert answer.error_message


def test_what_is_not_there_is_not_found(new_member: NewMember, make_topic: MakeTopic) -> None:
    member, stranger = new_member(), new_member()
    assert stranger.send(member_epoch=1).error_code == ErrorCode.group_id_not_found
    assert stranger.leave().error_code == ErrorCode.group_id_not_found
    member.join(make_topic())
    assert stranger.send(member_epoch=1).error_code == ErrorCode.unknown_member_id
    assert stranger.leave().error_code == ErrorCode.unknown_member_id


def test_an_unknown_assignor_is_refused(new_member: NewMember) -> None:
    answer = new_member().send(
        rebalance_timeout=1000,
        topic_partitions=[],
        subscribed_topic_names=["t"],
        server_assignor="fair",
    )
    assert answer.error_code == ErrorCode.unsupported_assignor


def test_a_wrong_epoch_is_fenced_and_the_group_goes_on(
    new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(), new_member()
    member.join(topic)
    for epoch in (1, 3):
        answer = member.send(member_epoch=epoch, topic_partitions=partitions_fields(member.owns))
        assert answer.error_code == ErrorCode.fenced_member_epoch
    member.heartbeat()
    assert member.join(topic).member_epoch == 2, (
        "a fenced member joins again, and keeps its assignment"
    )


def test_the_last_epoch_is_good_while_the_answer_may_be_lost(
    new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, first, second = make_topic(2), new_member(), new_member()
    first.join(topic)
    second.join(topic)
    first.heartbeat()
    old = first.epoch
    assert first.heartbeat().member_epoch == old + 1
    owned = partitions_fields(first.owns)
    assert first.send(member_epoch=old, topic_partitions=owned).member_epoch == old + 1
    everything = partitions_fields({topic.id: {0, 1}})
    for claims in (everything, None):
        answer = first.send(member_epoch=old, topic_partitions=claims)
        assert answer.error_code == ErrorCode.fenced_member_epoch


def test_who_does_not_give_up_partitions_in_time_is_put_out(
    new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, first, second = make_topic(2), new_member(), new_member()
    first.join(topic, rebalance_timeout=1000)
    everything = partitions_fields(first.owns)
    second.join(topic)
    deadline = time.monotonic() + DEADLINE_S
    while second.count(topic) < 2:
        assert time.monotonic() < deadline, second.owns
        first.send(topic_partitions=everything)
        second.heartbeat()
        time.sleep(0.05)
    answer = first.send(topic_partitions=everything)
    assert answer.error_code == ErrorCode.unknown_member_id


def test_a_silent_member_is_put_out(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, silent, other = make_topic(2), new_member(), new_member()
    set_group_config(client, silent.group, "consumer.heartbeat.interval.ms", "100")
    set_group_config(client, silent.group, "consumer.session.timeout.ms", "1000")
    time.sleep(0.5)  # Kafka lets settings count a little later
    assert silent.join(topic).heartbeat_interval.microseconds == 100_000
    other.join(topic)
    until(other, lambda: other.count(topic) == 2)
    assert silent.send().error_code == ErrorCode.unknown_member_id


# --- static members ------------------------------------------------------------------------------


def test_a_static_member_gets_back_what_it_had(
    new_member: NewMember, make_topic: MakeTopic, client: RawClient
) -> None:
    topic, member, other = make_topic(4), new_member("one"), new_member()
    member.join(topic)
    other.join(topic)
    settle(member, other)
    had = member.owns
    gone = member.leave(STATIC_LEAVE)
    assert (gone.error_code, gone.member_epoch) == (OK, STATIC_LEAVE)
    settle(other)
    assert other.count(topic) == 2, "no other member gets it"
    back = new_member("one")
    assert back.join(topic).member_epoch == other.epoch
    assert back.owns == had
    assert member.send().error_code == ErrorCode.fenced_instance_id
    assert describe(client, member.group).group_epoch == other.epoch, "nothing was assigned again"


def test_an_instance_id_has_one_owner(new_member: NewMember, make_topic: MakeTopic) -> None:
    topic, member, twin = make_topic(), new_member("one"), new_member("one")
    member.join(topic)
    fields: dict[str, Any] = {
        "rebalance_timeout": 1000,
        "subscribed_topic_names": [topic.name],
        "topic_partitions": [],
    }
    assert twin.send(**fields).error_code == ErrorCode.unreleased_instance_id
    assert twin.send(member_epoch=2).error_code == ErrorCode.fenced_instance_id
    assert twin.leave().error_code == ErrorCode.fenced_instance_id
    assert member.send(instance_id="two").error_code == ErrorCode.unknown_member_id
    assert member.leave().error_code == OK
    twin.join(topic)
    assert twin.count(topic) == 1


# --- offsets and administration ------------------------------------------------------------------


def test_members_commit_in_their_epoch(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(), new_member()
    member.join(topic)
    assert member.commit(topic, 5) == OK
    stale, unknown = ErrorCode.stale_member_epoch, ErrorCode.unknown_member_id
    assert member.commit(topic, 6, generation_id_or_member_epoch=1) == stale
    assert member.commit(topic, 6, generation_id_or_member_epoch=3) == stale
    assert member.commit(topic, 6, member_id="stranger") == unknown
    nobody: dict[str, Any] = {"member_id": "", "generation_id_or_member_epoch": -1}
    assert member.commit(topic, 6, **nobody) == unknown
    assert member.commit(topic, 6, version=8) == ErrorCode.unsupported_version
    assert committed(client, member.group) == {(topic.name, 0): 5}
    member.leave()
    assert member.commit(topic, 7, **nobody) == OK


def test_a_commit_of_an_older_epoch_is_good_for_what_one_had_then(
    new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(1), new_member()
    member.join(topic)
    old = member.epoch
    new_member().join(topic)
    settle(member)
    assert member.epoch > old
    if member.count(topic):
        assert member.commit(topic, 5, generation_id_or_member_epoch=old) == OK
    else:
        stale = ErrorCode.stale_member_epoch
        assert member.commit(topic, 5, generation_id_or_member_epoch=old) == stale


def test_members_read_offsets_in_their_epoch(new_member: NewMember, make_topic: MakeTopic) -> None:
    topic, member = make_topic(), new_member()
    member.join(topic)
    member.commit(topic, 5)
    assert member.fetch_offsets(topic).topics[0].partitions[0].committed_offset == 5
    stale, unknown = ErrorCode.stale_member_epoch, ErrorCode.unknown_member_id
    assert member.fetch_offsets(topic, member_epoch=1).error_code == stale
    assert member.fetch_offsets(topic, member_id="stranger").error_code == unknown
    assert member.fetch_offsets(topic, member_id=None, member_epoch=-1).error_code == OK


def test_only_an_empty_group_is_deleted(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(), new_member()
    member.join(topic)
    member.commit(topic, 5)

    def delete() -> ErrorCode:
        (result,) = client.call("delete_groups", 2, groups_names=[member.group]).results
        return ErrorCode(result.error_code)

    assert delete() == ErrorCode.non_empty_group
    member.leave()
    assert delete() == OK
    assert describe(client, member.group).error_code == ErrorCode.group_id_not_found
    assert committed(client, member.group) == {}
    assert member.join(topic).member_epoch == 2


def test_offsets_of_topics_that_are_read_stay(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    read, unread, member = make_topic(), make_topic(), new_member()
    member.join(read)
    for topic in (read, unread):
        assert member.commit(topic, 5) == OK
    topics = [{"name": one.name, "partitions": [{"partition_index": 0}]} for one in (read, unread)]
    answer = client.call("offset_delete", 0, group_id=member.group, topics=topics)
    codes = {one.name: one.partitions[0].error_code for one in answer.topics}
    assert codes == {read.name: ErrorCode.group_subscribed_to_topic, unread.name: OK}
    assert committed(client, member.group) == {(read.name, 0): 5}


def test_groups_are_listed_by_kind(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    member = new_member()
    member.join(make_topic())

    def listed(*types: str, states: tuple[str, ...] = ()) -> list[Any]:
        answer = client.call("list_groups", 5, states_filter=list(states), types_filter=list(types))
        return [one for one in answer.groups if one.group_id == member.group]

    (one,) = listed()
    assert (one.protocol_type, one.group_state, one.group_type) == (
        "consumer",
        "Stable",
        "consumer",
    )
    assert listed("consumer")
    assert listed("Consumer", states=("stable",))
    assert not listed("classic")
    assert not listed(states=("Empty",))


def test_a_group_of_another_kind_is_not_described(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    member = new_member()
    member.join(make_topic())
    (classic,) = client.call(
        "describe_groups", 6, groups=[member.group], include_authorized_operations=False
    ).groups
    assert (classic.error_code, classic.group_state) == (ErrorCode.group_id_not_found, "Dead")
    assert describe(client, "").error_code == ErrorCode.invalid_group_id
    missing = describe(client, f"{member.group}-missing")
    assert missing.error_code == ErrorCode.group_id_not_found
