"""Every version that Kafka 4.3.1 offers of the requests of groups gets a call that succeeds."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.calls import Topic
from tests.conformance.members import (
    CONSUMER,
    RANGE,
    GroupMember,
    commit_fields,
    committed,
    fetch_fields,
    find_coordinator,
)
from tests.conformance.offered import versions_of
from tests.conformance.raw import RawClient
from tests.conftest import Target

OK = ErrorCode.none
MakeTopic = Callable[..., Topic]


def versions(api: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", versions_of(api))


@pytest.fixture
def group(client: RawClient, topic: str) -> str:
    find_coordinator(client, topic)
    return topic


@pytest.fixture
def member(target: Target, group: str) -> Iterator[GroupMember]:
    """A member that has yet to join."""
    with GroupMember(target.bootstrap_servers, group) as one:
        yield one


@versions("join_group")
def test_join_group(member: GroupMember, version: int) -> None:
    answer = member.ask_to_join(version=version)
    if version >= 4:
        assert answer.error_code == ErrorCode.member_id_required
        answer = member.ask_to_join(version=version)
    assert (answer.error_code, answer.generation_id) == (OK, 1)
    assert answer.leader == answer.member_id == member.id
    assert answer.protocol_name == RANGE
    assert [one.member_id for one in answer.members] == [member.id]
    if version >= 7:
        assert answer.protocol_type == CONSUMER


@versions("join_group")
def test_a_refused_join_can_be_described(member: GroupMember, version: int) -> None:
    answer = member.ask_to_join(version=version, session_timeout=1)
    assert answer.error_code == ErrorCode.invalid_session_timeout
    assert answer.generation_id == -1
    assert answer.protocol_name == (None if version >= 7 else "")


@versions("sync_group")
def test_sync_group(member: GroupMember, version: int) -> None:
    member.join()
    answer = member.client.call(
        "sync_group",
        version,
        group_id=member.group,
        generation_id=1,
        member_id=member.id,
        group_instance_id=None,
        protocol_type=CONSUMER,
        protocol_name=RANGE,
        assignments=[{"member_id": member.id, "assignment": b"all"}],
    )
    assert (answer.error_code, answer.assignment) == (OK, b"all")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == (CONSUMER, RANGE)


@versions("heartbeat")
def test_heartbeat(member: GroupMember, version: int) -> None:
    member.become_stable()
    fields = {"group_id": member.group, "generation_id": 1, "member_id": member.id}
    answer = member.client.call("heartbeat", version, group_instance_id=None, **fields)
    assert answer.error_code == OK


@versions("leave_group")
def test_leave_group(member: GroupMember, version: int) -> None:
    member.become_stable()
    leaver = {"member_id": member.id, "group_instance_id": None, "reason": "why not"}
    answer = member.client.call(
        "leave_group", version, group_id=member.group, member_id=member.id, members=[leaver]
    )
    assert answer.error_code == OK
    if version >= 3:
        assert [(one.member_id, one.error_code) for one in answer.members] == [(member.id, OK)]


@versions("describe_groups")
def test_describe_groups(member: GroupMember, version: int) -> None:
    member.become_stable()
    (answer,) = member.client.call(
        "describe_groups", version, groups=[member.group], include_authorized_operations=False
    ).groups
    assert (answer.error_code, answer.group_id, answer.group_state) == (OK, member.group, "Stable")
    assert [one.member_assignment for one in answer.members] == [b"all"]


@versions("list_groups")
def test_list_groups(member: GroupMember, version: int) -> None:
    member.become_stable()
    answer = member.client.call("list_groups", version, states_filter=(), types_filter=())
    (one,) = [one for one in answer.groups if one.group_id == member.group]
    assert (answer.error_code, one.protocol_type) == (OK, CONSUMER)
    if version >= 4:
        assert one.group_state == "Stable"


@versions("delete_groups")
def test_delete_groups(member: GroupMember, version: int) -> None:
    member.become_stable()
    member.leave()
    answer = member.client.call("delete_groups", version, groups_names=[member.group])
    assert [(one.group_id, one.error_code) for one in answer.results] == [(member.group, OK)]


@versions("offset_commit")
def test_offset_commit(
    client: RawClient, member: GroupMember, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic()
    member.become_stable()
    assert member.commit(topic, 5, version=version) == OK
    assert committed(client, member.group) == {(topic.name, 0): 5}


@versions("offset_fetch")
def test_offset_fetch(
    client: RawClient, member: GroupMember, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic()
    member.become_stable()
    member.commit(topic, 5, topics=[commit_fields(topic, {0: 5}, "note")])
    fields: dict[str, Any] = {
        "group_id": member.group,
        "topics": [{"name": topic.name, "partition_indexes": [0]}],
        "groups": [fetch_fields(member.group, [(topic, [0])])],
        "require_stable": True,
    }
    answer = client.call("offset_fetch", version, **fields)
    found = (answer.groups[0] if version >= 8 else answer).topics[0].partitions[0]
    assert (found.error_code, found.committed_offset, found.metadata) == (OK, 5, "note")


@versions("offset_delete")
def test_offset_delete(
    client: RawClient, member: GroupMember, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic()
    member.become_stable()
    member.commit(topic, 5)
    topics = [{"name": topic.name, "partitions": [{"partition_index": 0}]}]
    answer = client.call("offset_delete", version, group_id=member.group, topics=topics)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (OK, OK)
    assert committed(client, member.group) == {}
