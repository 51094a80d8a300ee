"""How far groups have read: committed, fetched, forgotten; and groups listed and deleted."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from strom.broker.state_topic import java_hash
from strom.coordination.groups.log_format import decode, encode
from strom.coordination.groups.records import (
    GroupDeleted,
    GroupMetadata,
    OffsetCommitted,
    OffsetDeleted,
)
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import read_records
from tests.conformance.calls import Topic, end_offset, wait_until_gone
from tests.conformance.calls import fetch as fetch_records
from tests.conformance.members import (
    GroupMember,
    commit_fields,
    committed,
    fetch_fields,
    find_coordinator,
    subscription,
)
from tests.conformance.raw import RawClient
from tests.conftest import Target

OK = ErrorCode.none
MakeTopic = Callable[..., Topic]
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
        yield lambda: opened.enter_context(GroupMember(target.bootstrap_servers, group))


def commit(
    client: RawClient, group: str, *topics: dict[str, Any], version: int = 9, **changes: Any
) -> list[ErrorCode]:
    """Commit without being a member."""
    answer = client.call("offset_commit", version, **(by_nobody(group, *topics) | changes))
    return [one.error_code for topic in answer.topics for one in topic.partitions]


def by_nobody(group: str, *topics: dict[str, Any]) -> dict[str, Any]:
    """The fields of a commit by a client that is not a member."""
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time": -1,
        "topics": topics,
    }


def fetch(
    client: RawClient, group: str, topic: Topic, *indexes: int, version: int = 9
) -> list[Any]:
    wanted = [fetch_fields(group, [(topic, list(indexes))])]
    (answer,) = client.call("offset_fetch", version, groups=wanted, require_stable=True).groups
    assert answer.error_code == OK
    return list(answer.topics[0].partitions)


def delete_offsets(client: RawClient, group: str, *places: tuple[str, int]) -> Any:
    topics = [{"name": name, "partitions": [{"partition_index": index}]} for name, index in places]
    return client.call("offset_delete", 0, group_id=group, topics=topics)


def listed(client: RawClient, group: str, **filters: Any) -> list[Any]:
    fields = {"states_filter": (), "types_filter": ()} | filters
    answer = client.call("list_groups", 5, **fields)
    assert answer.error_code == OK
    return [one for one in answer.groups if one.group_id == group]


def delete_group(client: RawClient, group: str) -> ErrorCode:
    (answer,) = client.call("delete_groups", 2, groups_names=[group]).results
    assert answer.group_id == group
    code: ErrorCode = answer.error_code
    return code


# --- committing and fetching -----------------------------------------------------------------------


def test_what_is_committed_is_fetched(client: RawClient, group: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    offsets = commit_fields(topic, {0: 5, 2: 7}, "a note")
    offsets["partitions"][0]["committed_leader_epoch"] = 4
    assert commit(client, group, offsets) == [OK, OK]
    found = fetch(client, group, topic, 0, 1, 2)
    assert [(one.partition_index, one.committed_offset, one.metadata) for one in found] == [
        (0, 5, "a note"),
        (1, -1, ""),
        (2, 7, "a note"),
    ]
    assert [one.committed_leader_epoch for one in found] == [4, -1, -1]
    assert {one.error_code for one in found} == {OK}
    assert committed(client, group) == {(topic.name, 0): 5, (topic.name, 2): 7}


def test_the_last_commit_counts(client: RawClient, group: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    for offset in (5, 9, 2):
        commit(client, group, commit_fields(topic, {0: offset}))
    assert committed(client, group) == {(topic.name, 0): 2}


def test_commits_that_do_not_wait_for_each_other_are_done_and_answered_in_order(
    client: RawClient, group: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    commits = [commit_fields(topic, {0: offset}) for offset in range(50)]
    commits[20] = commit_fields(topic, {5: 0})  # there is no such partition
    sent = [client.send("offset_commit", 9, **by_nobody(group, one)) for one in commits]
    fetching = [fetch_fields(group, [(topic, [0])])]
    asked = client.send("offset_fetch", 9, groups=fetching, require_stable=True)
    answers = [client.receive("offset_commit", 9, one) for one in sent]
    codes = [answer.topics[0].partitions[0].error_code for answer in answers]
    assert codes == [OK] * 20 + [ErrorCode.unknown_topic_or_partition] + [OK] * 29
    (found,) = client.receive("offset_fetch", 9, asked).groups
    assert found.topics[0].partitions[0].committed_offset == 49


def test_several_groups_are_fetched_at_once(
    client: RawClient, group: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    commit(client, group, commit_fields(topic, {0: 1}))
    commit(client, f"{group}-b", commit_fields(topic, {0: 2}))
    wanted = [fetch_fields(name, None) for name in (group, f"{group}-b", f"{group}-none")]
    answer = client.call("offset_fetch", 9, groups=wanted, require_stable=False)
    found = [
        (one.group_id, [topic.partitions[0].committed_offset for topic in one.topics])
        for one in answer.groups
    ]
    assert found == [(group, [1]), (f"{group}-b", [2]), (f"{group}-none", [])]


@pytest.mark.parametrize("version", [1, 2, 5, 7])
def test_an_old_client_fetches_one_group(
    client: RawClient, group: str, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic(2)
    commit(client, group, commit_fields(topic, {0: 5}))
    wanted = [{"name": topic.name, "partition_indexes": [0, 1]}]
    answer = client.call(
        "offset_fetch", version, group_id=group, topics=wanted, require_stable=False
    )
    assert [one.committed_offset for one in answer.topics[0].partitions] == [5, -1]
    if version >= 2:
        answer = client.call(
            "offset_fetch", version, group_id=group, topics=None, require_stable=False
        )
        assert [one.committed_offset for one in answer.topics[0].partitions] == [5]


def test_topics_go_by_their_ids_in_the_newest_version(
    client: RawClient, group: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    assert commit(client, group, commit_fields(topic, {0: 5}), version=10) == [OK]
    assert fetch(client, group, topic, 0, version=10)[0].committed_offset == 5
    (answer,) = client.call(
        "offset_fetch", 10, groups=[fetch_fields(group, None)], require_stable=False
    ).groups
    assert [one.topic_id for one in answer.topics] == [topic.id]


def test_an_unknown_topic_id_is_reported(
    client: RawClient, group: str, make_topic: MakeTopic
) -> None:
    gone = make_topic()
    client.call("delete_topics", 6, topics=[{"name": gone.name, "topic_id": None}], timeout=10_000)
    wait_until_gone(client, gone.name)
    unknown = ErrorCode.unknown_topic_id
    assert commit(client, group, commit_fields(gone, {0: 5}), version=10) == [unknown]
    (found,) = fetch(client, group, gone, 0, version=10)
    assert (found.error_code, found.committed_offset) == (unknown, -1)


def test_partitions_that_are_not_there_cannot_be_committed(
    client: RawClient, group: str, make_topic: MakeTopic, unknown_topic: Topic
) -> None:
    topic = make_topic()
    codes = commit(
        client,
        group,
        commit_fields(unknown_topic, {0: 1}),
        commit_fields(topic, {0: 1, 1: 1}),
    )
    unknown = ErrorCode.unknown_topic_or_partition
    assert sorted(codes) == [OK, unknown, unknown]
    assert committed(client, group) == {(topic.name, 0): 1}
    (found,) = fetch(client, group, unknown_topic, 0)
    assert (found.error_code, found.committed_offset) == (OK, -1)


def test_a_long_note_is_refused_alone(client: RawClient, group: str, make_topic: MakeTopic) -> None:
    one, other = make_topic(), make_topic()
    codes = commit(
        client,
        group,
        commit_fields(one, {0: 1}, "x" * 4097),
        commit_fields(other, {0: 1}, "x" * 4096),
    )
    assert codes == [ErrorCode.offset_metadata_too_large, OK]
    assert committed(client, group) == {(other.name, 0): 1}


def test_an_old_client_chooses_how_long_its_offsets_live(
    client: RawClient, group: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fields = commit_fields(topic, {0: 5})
    assert commit(client, group, fields, version=2, retention_time=60_000) == [OK]
    assert committed(client, group) == {(topic.name, 0): 5}


def test_only_members_of_the_generation_may_commit(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(), new_member()
    member.become_stable()
    assert member.commit(topic, 5) == OK
    assert member.commit(topic, 6, generation_id_or_member_epoch=0) == ErrorCode.illegal_generation
    unknown = ErrorCode.unknown_member_id
    assert member.commit(topic, 6, member_id="nobody") == unknown
    assert member.commit(topic, 6, group_instance_id="x") == unknown
    assert commit(client, member.group, commit_fields(topic, {0: 6})) == [unknown]
    assert committed(client, member.group) == {(topic.name, 0): 5}


def test_no_member_commits_while_assignments_are_awaited(
    new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(), new_member()
    member.join()
    assert member.commit(topic, 5) == ErrorCode.rebalance_in_progress


def test_a_member_may_commit_while_the_next_rebalance_begins(
    new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member, other = make_topic(), new_member(), new_member()
    member.become_stable()
    other.get_id()
    other.begin_join()
    while member.heartbeat() != ErrorCode.rebalance_in_progress:
        pass
    assert member.commit(topic, 5) == OK


@pytest.mark.parametrize(
    ("version", "code"), [(8, ErrorCode.illegal_generation), (9, ErrorCode.group_id_not_found)]
)
def test_a_member_of_a_group_that_is_gone_cannot_commit(
    new_member: NewMember, make_topic: MakeTopic, version: int, code: ErrorCode
) -> None:
    topic, member = make_topic(), new_member()
    member.generation, member.id = 3, "nobody"
    assert member.commit(topic, 5, version=version) == code


def test_offsets_outlive_the_members(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(), new_member()
    member.become_stable()
    member.commit(topic, 5)
    member.leave()
    assert committed(client, member.group) == {(topic.name, 0): 5}
    assert commit(client, member.group, commit_fields(topic, {0: 6})) == [OK]


def test_offsets_go_with_their_topic(client: RawClient, group: str, make_topic: MakeTopic) -> None:
    topic, kept = make_topic(), make_topic()
    commit(client, group, commit_fields(topic, {0: 5}), commit_fields(kept, {0: 6}))
    client.call("delete_topics", 6, topics=[{"name": topic.name, "topic_id": None}], timeout=10_000)
    wait_until_gone(client, topic.name)
    for _ in range(200):
        if committed(client, group) == {(kept.name, 0): 6}:
            return
    raise AssertionError(committed(client, group))


def stored_records(client: RawClient, group: str) -> list[tuple[bytes, bytes | None]]:
    """What the offsets topic holds about a group."""
    topic = Topic("__consumer_offsets", None)
    partition, offset, found = java_hash(group) % 50, 0, []
    end = end_offset(client, topic, partition)
    while offset < end:
        data = bytes(fetch_records(client, topic, offset, partition=partition).records)
        for position, header in headers(data):
            found += read_records(data, position, header)
            offset = header.next_offset
    return [
        (record.key, record.value)
        for record in found
        if record.key and group.encode() in record.key
    ]


def test_records_have_kafkas_own_form(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(), new_member()
    member.become_stable()
    member.commit(topic, 5)
    member.leave()
    delete_group(client, member.group)
    stored = stored_records(client, member.group)
    records = [decode(*one) for one in stored]
    first = records[0]
    assert isinstance(first, GroupMetadata)
    # Kafka notes a group down before its first generation, too.
    assert [type(one) for one in records if one is not first or first.members] == [
        GroupMetadata,
        OffsetCommitted,
        GroupMetadata,
        OffsetDeleted,
        GroupDeleted,
    ]
    # Read and written again, every byte is the same: on Kafka this means that strom writes as it does.
    assert [encode(one) for one in records if one is not None] == stored


# --- forgetting offsets ----------------------------------------------------------------------------


def test_offsets_of_an_empty_group_are_forgotten(
    client: RawClient, group: str, make_topic: MakeTopic, unknown_topic: Topic
) -> None:
    topic = make_topic(2)
    commit(client, group, commit_fields(topic, {0: 5, 1: 6}))
    answer = delete_offsets(client, group, (topic.name, 0), (unknown_topic.name, 0))
    assert answer.error_code == OK
    codes = {one.name: one.partitions[0].error_code for one in answer.topics}
    assert codes == {
        topic.name: OK,
        unknown_topic.name: ErrorCode.unknown_topic_or_partition,
    }
    assert committed(client, group) == {(topic.name, 1): 6}


def test_offsets_of_what_is_read_now_stay(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    read, other, member = make_topic(), make_topic(), new_member()
    member.protocols = [("range", subscription(read.name))]
    member.become_stable()
    member.commit(read, 5), member.commit(other, 6)
    answer = delete_offsets(client, member.group, (read.name, 0), (other.name, 0))
    codes = {one.name: one.partitions[0].error_code for one in answer.topics}
    assert codes == {read.name: ErrorCode.group_subscribed_to_topic, other.name: OK}
    assert committed(client, member.group) == {(read.name, 0): 5}


def test_offsets_of_another_kind_of_group_stay_while_it_has_members(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    topic, member = make_topic(), new_member()
    assert member.ask_to_join(version=3, protocol_type="connect").error_code == OK
    answer = delete_offsets(client, member.group, (topic.name, 0))
    assert (answer.error_code, answer.topics) == (ErrorCode.non_empty_group, ())


def test_offsets_of_a_group_that_is_not_there(
    client: RawClient, group: str, make_topic: MakeTopic
) -> None:
    answer = delete_offsets(client, group, (make_topic().name, 0))
    assert (answer.error_code, answer.topics) == (ErrorCode.group_id_not_found, ())


# --- listing and deleting groups -------------------------------------------------------------------


def test_groups_are_listed_with_their_state(
    client: RawClient, new_member: NewMember, make_topic: MakeTopic
) -> None:
    member = new_member()
    assert listed(client, member.group) == []
    member.become_stable()
    (one,) = listed(client, member.group)
    assert (one.protocol_type, one.group_state, one.group_type) == (
        "consumer",
        "Stable",
        "classic",
    )
    member.leave()
    assert listed(client, member.group)[0].group_state == "Empty"
    plain = f"{member.group}-plain"
    commit(client, plain, commit_fields(make_topic(), {0: 1}))
    (one,) = listed(client, plain)
    assert (one.protocol_type, one.group_state) == ("", "Empty")


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"states_filter": ["Empty"]}, 1),
        ({"states_filter": ["empty", "Stable"]}, 1),
        ({"states_filter": ["Stable"]}, 0),
        ({"states_filter": ["nonsense"]}, 0),
        ({"types_filter": ["Classic"]}, 1),
        ({"types_filter": ["classic"]}, 1),
        ({"types_filter": ["consumer"]}, 0),
    ],
    ids=str,
)
def test_groups_are_filtered(
    client: RawClient, group: str, make_topic: MakeTopic, filters: dict[str, Any], found: int
) -> None:
    commit(client, group, commit_fields(make_topic(), {0: 1}))
    assert len(listed(client, group, **filters)) == found


def test_an_empty_group_is_deleted_with_its_offsets(
    client: RawClient, group: str, make_topic: MakeTopic
) -> None:
    commit(client, group, commit_fields(make_topic(), {0: 1}))
    assert delete_group(client, group) == OK
    assert listed(client, group) == []
    assert committed(client, group) == {}
    assert delete_group(client, group) == ErrorCode.group_id_not_found


def test_a_group_with_members_is_not_deleted(client: RawClient, new_member: NewMember) -> None:
    member = new_member()
    member.become_stable()
    assert delete_group(client, member.group) == ErrorCode.non_empty_group
    assert member.heartbeat() == OK
    member.leave()
    assert delete_group(client, member.group) == OK


def test_groups_without_a_name(client: RawClient, group: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert commit(client, "", commit_fields(topic, {0: 1})) == [OK]
    assert committed(client, "")[topic.name, 0] == 1
    answer = delete_offsets(client, "", (topic.name, 0))
    assert answer.error_code == ErrorCode.invalid_group_id
    assert delete_group(client, "") == OK
