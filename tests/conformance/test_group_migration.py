"""A group moves between the classic and the consumer protocol, empty or at work."""

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from strom.coordination.groups.log_format import decode, encode
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import read_records
from tests.conformance import calls
from tests.conformance.calls import Topic
from tests.conformance.consumer_members import ConsumerMember, describe, settle
from tests.conformance.members import RANGE, GroupMember, committed, find_coordinator
from tests.conformance.raw import RawClient
from tests.conftest import Target

OK = ErrorCode.none
MakeTopic = Callable[..., Topic]
COOPERATIVE = 1


@pytest.fixture
def group(client: RawClient, topic: str) -> str:
    """A group of one's own."""
    find_coordinator(client, topic)
    return topic


@pytest.fixture
def member(client: RawClient, group: str) -> ConsumerMember:
    """A member of the new protocol that has yet to join."""
    return ConsumerMember(client, group)


@pytest.fixture
def new_classic(target: Target, group: str) -> Iterator[Callable[..., GroupMember]]:
    """Makes classic members that have yet to join."""
    with ExitStack() as opened:
        yield lambda instance=None: opened.enter_context(
            GroupMember(target.bootstrap_servers, group, instance)
        )


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def partitions(owned: dict[str, list[int]]) -> bytes:
    return struct.pack(">i", len(owned)) + b"".join(
        text(name) + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
        for name, indexes in owned.items()
    )


def wants(topic: Topic, *indexes: int) -> bytes:
    """What a cooperative consumer says of itself: its topics, and what it has."""
    owned = {topic.name: list(indexes)} if indexes else {}
    head = struct.pack(">hi", COOPERATIVE, 1) + text(topic.name) + struct.pack(">i", -1)
    return head + partitions(owned)


def share(topic: Topic, *indexes: int) -> bytes:
    owned = {topic.name: list(indexes)} if indexes else {}
    return struct.pack(">h", COOPERATIVE) + partitions(owned) + struct.pack(">i", -1)


def join_alone(member: GroupMember, topic: Topic) -> None:
    """Be a classic group of one that has both partitions."""
    member.protocols = [(RANGE, wants(topic))]
    assert member.join().leader == member.id
    assert member.sync({member.id: share(topic, 0, 1)}).error_code == OK


def state(client: RawClient, group: str) -> str:
    answer = client.call("list_groups", 5, states_filter=[], types_filter=[])
    (found,) = [one for one in answer.groups if one.group_id == group]
    return f"{found.group_type} {found.group_state}"


def test_an_empty_classic_group_is_taken_over_with_its_offsets(
    client: RawClient, member: ConsumerMember, new_classic: Any, make_topic: MakeTopic
) -> None:
    topic, classic = make_topic(2), new_classic()
    join_alone(classic, topic)
    assert classic.commit(topic, 5) == OK
    classic.leave()
    assert state(client, member.group) == "classic Empty"
    assert member.send(member_epoch=1).error_code == ErrorCode.group_id_not_found
    member.join(topic)
    assert state(client, member.group) == "consumer Stable"
    assert committed(client, member.group) == {(topic.name, 0): 5}


def test_an_empty_consumer_group_is_taken_over_with_its_offsets(
    client: RawClient, member: ConsumerMember, new_classic: Any, make_topic: MakeTopic
) -> None:
    topic, classic = make_topic(2), new_classic()
    member.join(topic)
    assert member.commit(topic, 5) == OK
    member.leave()
    assert state(client, member.group) == "consumer Empty"
    join_alone(classic, topic)
    assert state(client, member.group) == "classic Stable"
    assert committed(client, member.group) == {(topic.name, 0): 5}


def test_a_group_at_work_moves_up_and_down(
    client: RawClient, member: ConsumerMember, new_classic: Any, make_topic: MakeTopic
) -> None:
    topic, classic = make_topic(2), new_classic()
    join_alone(classic, topic)
    assert member.join(topic).assignment.topic_partitions == (), "the classic member has all"
    assert {one.member_type for one in describe(client, member.group).members} == {0, 1}

    # The classic member has to join again, and gives up one of its partitions.
    assert classic.heartbeat() == ErrorCode.rebalance_in_progress
    classic.protocols = [(RANGE, wants(topic, 0, 1))]
    joined = classic.join()
    assert (joined.leader, joined.members, joined.protocol_name) == ("", (), RANGE)
    (kept,) = [index for index in (0, 1) if classic.sync().assignment == share(topic, index)]
    member.heartbeat()
    assert member.count(topic) == 0
    assert classic.heartbeat() == ErrorCode.rebalance_in_progress
    classic.protocols = [(RANGE, wants(topic, kept))]
    assert classic.join().generation_id == joined.generation_id + 1
    assert classic.sync().assignment == share(topic, kept)
    assert classic.heartbeat() == OK
    settle(member)
    assert member.owns == {topic.id: {1 - kept}}
    assert state(client, member.group) == "consumer Stable"
    assert classic.commit(topic, 5) == OK
    assert member.commit(topic, 6) == OK

    # The last member of the new protocol leaves: the group is a classic one again.
    assert member.leave().error_code == OK
    assert classic.heartbeat() == ErrorCode.rebalance_in_progress
    assert classic.join().leader == classic.id
    assert classic.sync({classic.id: share(topic, 0, 1)}).assignment == share(topic, 0, 1)
    assert state(client, member.group) == "classic Stable"
    assert committed(client, member.group) == {(topic.name, 0): 6}


def test_members_that_wait_for_a_classic_rebalance_have_to_join_again(
    member: ConsumerMember, new_classic: Any, make_topic: MakeTopic
) -> None:
    topic, first, second = make_topic(2), new_classic(), new_classic()
    join_alone(first, topic)
    second.protocols = [(RANGE, wants(topic))]
    second.get_id()
    second.begin_join()
    while first.heartbeat() != ErrorCode.rebalance_in_progress:
        pass
    member.join(topic)
    assert second.end_join().error_code == ErrorCode.rebalance_in_progress
    assert second.join().error_code == OK


def test_classic_members_leave_a_consumer_group(
    client: RawClient, member: ConsumerMember, new_classic: Any, make_topic: MakeTopic
) -> None:
    topic, classic = make_topic(2), new_classic()
    join_alone(classic, topic)
    member.join(topic)
    stranger = new_classic()
    stranger.id = "stranger"
    codes = [one.error_code for one in classic.leave(stranger).members]
    assert codes == [OK, ErrorCode.unknown_member_id]
    settle(member)
    assert member.count(topic) == 2
    assert classic.heartbeat() == ErrorCode.unknown_member_id


def test_what_does_not_fit_stays_outside(
    member: ConsumerMember, new_classic: Any, make_topic: MakeTopic
) -> None:
    topic, classic, other = make_topic(2), new_classic(), new_classic()
    join_alone(classic, topic)
    member.join(topic)
    other.protocols = [("another", wants(topic))]
    assert other.ask_to_join().error_code == ErrorCode.inconsistent_group_protocol
    other.protocols = [(RANGE, wants(topic))]
    answer = other.ask_to_join(protocol_type="connect")
    assert answer.error_code == ErrorCode.inconsistent_group_protocol
    other.id, other.generation = member.id, member.epoch
    assert other.heartbeat() == ErrorCode.unknown_member_id, "it does not speak this protocol"
    classic.generation += 1
    assert classic.heartbeat() == ErrorCode.illegal_generation
    assert classic.sync().error_code == ErrorCode.illegal_generation
    assert classic.commit(topic, 5) == ErrorCode.illegal_generation


def test_a_group_of_another_type_is_not_taken_over(
    member: ConsumerMember, new_classic: Any, make_topic: MakeTopic
) -> None:
    topic, classic = make_topic(), new_classic()
    classic.get_id()
    assert classic.ask_to_join(protocol_type="connect").error_code == OK
    answer = member.send(
        rebalance_timeout=1000, subscribed_topic_names=[topic.name], topic_partitions=[]
    )
    assert answer.error_code == ErrorCode.group_id_not_found


def test_a_static_member_changes_the_protocol_and_keeps_what_it_has(
    client: RawClient, member: ConsumerMember, new_classic: Any, make_topic: MakeTopic
) -> None:
    topic, classic = make_topic(2), new_classic("one")
    join_alone(classic, topic)
    member.instance = "one"
    member.join(topic)
    assert member.owns == {topic.id: {0, 1}}
    assert state(client, member.group) == "consumer Stable"
    assert classic.heartbeat() == ErrorCode.fenced_instance_id
    back = new_classic("one")
    back.protocols = [(RANGE, wants(topic))]
    assert back.join().error_code == OK
    assert state(client, member.group).startswith("classic")
    assert member.send().error_code == ErrorCode.group_id_not_found


def test_the_records_of_groups_are_kafkas_to_the_byte(
    client: RawClient, member: ConsumerMember, new_classic: Any, make_topic: MakeTopic
) -> None:
    topic, classic = make_topic(2), new_classic()
    join_alone(classic, topic)
    member.join(topic, subscribed_topic_regex=f"{topic.name}|x", server_assignor="range")
    classic.protocols = [(RANGE, wants(topic, 0, 1))]
    classic.join()
    classic.sync()
    member.heartbeat()
    member.commit(topic, 5)
    seen = set()
    for key, value in offsets_topic(client):
        if member.group.encode() in key:
            record = decode(key, value)
            if record is not None:  # a kind that newer brokers do not write any more
                seen.add(type(record).__name__)
                assert encode(record) == (key, value)
    assert {"GroupMetadata", "GroupDeleted", "GroupEpoch", "TargetEpoch"} <= seen
    assert {"MemberSubscription", "MemberTarget", "MemberCurrent"} <= seen


def offsets_topic(client: RawClient) -> Iterator[tuple[bytes, bytes | None]]:
    """Every record of `__consumer_offsets`."""
    described = calls.describe(client, "__consumer_offsets")
    topic = Topic(described.name, described.topic_id)
    for partition in range(len(described.partitions)):
        offset, end = 0, calls.end_offset(client, topic, partition)
        while offset < end:
            data = calls.fetch(client, topic, offset, partition=partition).records
            for position, header in headers(data):
                offset = header.next_offset
                if not header.is_control:
                    for record in read_records(data, position, header):
                        yield record.key or b"", record.value
