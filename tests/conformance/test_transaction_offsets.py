"""Offsets that are committed in a transaction: pending until it ends."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.calls import Topic
from tests.conformance.members import (
    GroupMember,
    committed,
    fetch_fields,
)
from tests.conformance.members import find_coordinator as find_group_coordinator
from tests.conformance.producers import Producer, describe_transaction
from tests.conformance.raw import RawClient
from tests.conftest import Target

OK = ErrorCode.none
MakeTopic = Callable[..., Topic]
both_versions = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture
def group(client: RawClient, topic: str) -> str:
    find_group_coordinator(client, topic)
    return topic


@pytest.fixture
def producer(client: RawClient, topic: str, version: int) -> Producer:
    one = Producer(client, f"{topic}-producer", version=version)
    one.begin()
    return one


@pytest.fixture
def member(target: Target, group: str) -> Iterator[GroupMember]:
    with GroupMember(target.bootstrap_servers, group) as one:
        yield one


def commit(producer: Producer, group: str, topic: Topic, offset: int, **changes: Any) -> ErrorCode:
    if producer.version == 1:
        assert producer.add_offsets(group) == OK
    return producer.commit_offsets(group, topic, {0: offset}, **changes)[0]


def stable(client: RawClient, group: str, topic: Topic) -> tuple[ErrorCode, int]:
    """What a consumer that requires stable offsets gets."""
    wanted = [fetch_fields(group, [(topic, [0])])]
    (answer,) = client.call("offset_fetch", 9, groups=wanted, require_stable=True).groups
    one = answer.topics[0].partitions[0]
    return one.error_code, one.committed_offset


@both_versions
def test_offsets_count_when_the_transaction_commits(
    client: RawClient, make_topic: MakeTopic, group: str, producer: Producer
) -> None:
    topic = make_topic()
    assert commit(producer, group, topic, 5) == OK
    assert committed(client, group) == {}
    assert stable(client, group, topic) == (ErrorCode.unstable_offset_commit, -1)
    producer.end(commit=True)
    assert committed(client, group) == {(topic.name, 0): 5}
    assert stable(client, group, topic) == (OK, 5)


@both_versions
def test_offsets_of_an_aborted_transaction_are_dropped(
    client: RawClient, make_topic: MakeTopic, group: str, producer: Producer
) -> None:
    topic = make_topic()
    commit(producer, group, topic, 5)
    producer.end(commit=True)
    commit(producer, group, topic, 9)
    assert committed(client, group) == {(topic.name, 0): 5}
    assert stable(client, group, topic) == (ErrorCode.unstable_offset_commit, -1)
    producer.end(commit=False)
    assert stable(client, group, topic) == (OK, 5)


@both_versions
def test_the_last_offset_of_a_transaction_counts(
    client: RawClient, make_topic: MakeTopic, group: str, producer: Producer
) -> None:
    topic = make_topic()
    for offset in (5, 9, 7):
        assert commit(producer, group, topic, offset) == OK
    producer.end(commit=True)
    assert committed(client, group) == {(topic.name, 0): 7}


@both_versions
def test_a_later_commit_outside_wins(
    client: RawClient,
    make_topic: MakeTopic,
    group: str,
    producer: Producer,
    member: GroupMember,
) -> None:
    topic = make_topic()
    commit(producer, group, topic, 5)
    assert member.commit(topic, 8) == OK
    assert committed(client, group) == {(topic.name, 0): 8}
    assert stable(client, group, topic) == (ErrorCode.unstable_offset_commit, -1)
    producer.end(commit=True)
    assert stable(client, group, topic) == (OK, 8)


@both_versions
def test_two_producers_commit_for_one_group(
    client: RawClient, make_topic: MakeTopic, group: str, producer: Producer
) -> None:
    topic = make_topic(2)
    other = Producer(client, f"{group}-other", version=producer.version)
    other.begin()
    commit(producer, group, topic, 5)
    if other.version == 1:
        assert other.add_offsets(group) == OK
    assert other.commit_offsets(group, topic, {1: 6}) == {1: OK}
    producer.end(commit=True)
    assert committed(client, group) == {(topic.name, 0): 5}
    other.end(commit=True)
    assert committed(client, group) == {(topic.name, 0): 5, (topic.name, 1): 6}


@pytest.mark.parametrize("version", [2])
def test_the_group_becomes_part_of_the_transaction_by_itself(
    client: RawClient, make_topic: MakeTopic, group: str, producer: Producer
) -> None:
    topic = make_topic()
    for request_version in range(4):
        codes = producer.commit_offsets(group, topic, {0: 1}, version=request_version)
        assert codes == {0: ErrorCode.invalid_txn_state}
    codes = producer.commit_offsets(group, topic, {0: 1}, version=4)
    assert codes == {0: ErrorCode.transaction_abortable}
    assert producer.commit_offsets(group, topic, {0: 1}, version=5) == {0: OK}
    found = describe_transaction(client, producer.transactional_id)
    assert [one.topic for one in found.topics] == ["__consumer_offsets"]
    producer.end(commit=False)


@both_versions
def test_members_are_checked(
    make_topic: MakeTopic, group: str, producer: Producer, member: GroupMember
) -> None:
    topic = make_topic()
    unknown = ErrorCode.unknown_member_id
    member.become_stable()
    mine = {"member_id": member.id, "generation_id": member.generation}
    assert commit(producer, group, topic, 1, **mine) == OK
    old = mine | {"generation_id": member.generation - 1}
    assert commit(producer, group, topic, 1, **old) == ErrorCode.illegal_generation
    assert commit(producer, group, topic, 1, **(mine | {"member_id": "who"})) == unknown
    assert commit(producer, group, topic, 1, generation_id=7) == unknown
    fenced = mine | {"group_instance_id": "nobody"}
    assert commit(producer, group, topic, 1, **fenced) == unknown
    # Clients of former days say nothing of a member, and are believed.
    assert commit(producer, group, topic, 2) == OK
    producer.end(commit=False)


@both_versions
def test_a_generation_of_an_unknown_group(
    make_topic: MakeTopic, group: str, producer: Producer
) -> None:
    topic = make_topic()
    code = commit(producer, group, topic, 1, generation_id=3, member_id="who")
    assert code == ErrorCode.illegal_generation
    assert commit(producer, group, topic, 1) == OK
    producer.end(commit=False)


@both_versions
def test_refusals(
    client: RawClient, make_topic: MakeTopic, unknown_topic: Topic, group: str, producer: Producer
) -> None:
    topic = make_topic()
    if producer.version == 1:
        assert producer.add_offsets(group) == OK
    codes = producer.commit_offsets(group, topic, {0: 1, 7: 1})
    assert codes == {0: OK, 7: ErrorCode.unknown_topic_or_partition}
    codes = producer.commit_offsets(group, unknown_topic, {0: 1})
    assert codes == {0: ErrorCode.unknown_topic_or_partition}
    assert producer.commit_offsets("", topic, {0: 1}) == {0: ErrorCode.invalid_group_id}
    wrong_id = producer.commit_offsets(group, topic, {0: 1}, producer_id=producer.id + 10**9)
    assert wrong_id == {0: ErrorCode.invalid_producer_id_mapping}
    fenced = producer.commit_offsets(group, topic, {0: 1}, producer_epoch=producer.epoch + 7)
    assert fenced == {0: ErrorCode.invalid_producer_epoch}
    producer.end(commit=False)


@both_versions
def test_a_deleted_group_does_not_come_back_with_a_commit(
    client: RawClient, make_topic: MakeTopic, group: str, producer: Producer
) -> None:
    topic = make_topic()
    commit(producer, group, topic, 5)
    (answer,) = client.call("delete_groups", 2, groups_names=[group]).results
    assert answer.error_code == OK
    producer.end(commit=True)
    assert committed(client, group) == {}


@both_versions
def test_members_of_the_new_protocol_are_checked(
    client: RawClient, make_topic: MakeTopic, group: str, producer: Producer
) -> None:
    topic = make_topic()
    joined = client.call(
        "consumer_group_heartbeat",
        1,
        group_id=group,
        member_id="a-member",
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=30_000,
        subscribed_topic_names=[topic.name],
        subscribed_topic_regex=None,
        server_assignor=None,
        topic_partitions=(),
    )
    assert joined.error_code == OK, joined
    mine = {"member_id": joined.member_id, "generation_id": joined.member_epoch}
    assert commit(producer, group, topic, 1, **mine) == OK
    newer = mine | {"generation_id": joined.member_epoch + 5}
    assert commit(producer, group, topic, 1, **newer) == ErrorCode.illegal_generation
    other = mine | {"member_id": "who"}
    assert commit(producer, group, topic, 1, **other) == ErrorCode.unknown_member_id
    producer.end(commit=True)
    assert committed(client, group) == {(topic.name, 0): 1}
