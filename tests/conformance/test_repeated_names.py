"""Names that a request repeats: what the response repeats, and what it describes once."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance import producers
from tests.conformance.calls import Topic
from tests.conformance.members import commit_fields, find_coordinator
from tests.conformance.raw import RawClient

MakeTopic = Callable[..., Topic]


@pytest.fixture
def topic(make_topic: MakeTopic) -> Topic:
    return make_topic(2)


@pytest.fixture
def group(client: RawClient, topic: Topic) -> str:
    """A group that exists."""
    name = f"group-of-{topic.name}"
    find_coordinator(client, name)
    client.call(
        "offset_commit",
        7,
        group_id=name,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[commit_fields(topic, {0: 0})],
    )
    return name


@pytest.mark.parametrize(
    ("api", "version", "field"),
    [
        ("describe_groups", 6, "groups"),
        ("consumer_group_describe", 1, "group_ids"),
        ("share_group_describe", 1, "group_ids"),
    ],
)
def test_a_group_is_described_each_time(
    client: RawClient, group: str, api: str, version: int, field: str
) -> None:
    names = [group, "unknown", group, "unknown"]
    options = {field: names, "include_authorized_operations": False}
    described = client.call(api, version, **options).groups
    assert sorted(one.group_id for one in described) == sorted(names)


def test_producers_of_a_partition_are_described_each_time(client: RawClient, topic: Topic) -> None:
    wanted = {"name": topic.name, "partition_indexes": [0, 0]}
    described = client.call("describe_producers", 0, topics=[wanted] * 3).topics
    assert [(one.name, len(one.partitions)) for one in described] == [(topic.name, 2)] * 3


def test_committed_offsets_are_returned_each_time(
    client: RawClient, topic: Topic, group: str
) -> None:
    wanted = {"name": topic.name, "partition_indexes": [0, 0]}
    one = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": [wanted] * 3}
    found = client.call("offset_fetch", 9, groups=[one] * 2, require_stable=False).groups
    topics = [(each.name, len(each.partitions)) for each in found[0].topics]
    assert [each.group_id for each in found] == [group] * 2
    assert topics == [(topic.name, 2)] * 3


def test_all_offsets_of_a_group_are_returned_each_time(
    client: RawClient, topic: Topic, group: str
) -> None:
    wanted = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}
    found = client.call("offset_fetch", 9, groups=[wanted] * 3, require_stable=False).groups
    topics = [[(one.name, len(one.partitions)) for one in each.topics] for each in found]
    assert [each.group_id for each in found] == [group] * 3
    assert topics == [[(topic.name, 1)]] * 3


def test_a_transaction_is_described_each_time(client: RawClient, topic: Topic) -> None:
    name = f"transaction-of-{topic.name}"
    producer = producers.Producer(client, name)
    producer.begin()
    described = producers.describe_transactions(client, [name] * 3)
    found = [(one.transactional_id, one.producer_id) for one in described]
    assert found == [(name, producer.id)] * 3


def test_a_partition_is_listed_once_and_refused(client: RawClient, topic: Topic) -> None:
    places = [0, 0, 1], [0]
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": index, "current_leader_epoch": -1, "timestamp": -1}
                for index in indexes
            ],
        }
        for indexes in places
    ]
    fields: dict[str, Any] = {"replica_id": -1, "isolation_level": 0, "topics": topics}
    (listed,) = client.call("list_offsets", 5, **fields).topics
    codes = {(one.partition_index, one.error_code) for one in listed.partitions}
    assert codes == {(0, ErrorCode.invalid_request), (1, ErrorCode.none)}
    assert len(listed.partitions) == 2


def test_the_size_of_a_partition_is_described_once(client: RawClient, topic: Topic) -> None:
    wanted = [{"topic": topic.name, "partitions": indexes} for indexes in ([0, 0], [1, 0])]
    (result,) = client.call("describe_log_dirs", 4, topics=wanted).results
    (described,) = result.topics
    assert sorted(one.partition_index for one in described.partitions) == [0, 1]


def test_a_share_partition_is_described_once_in_each_group(client: RawClient, topic: Topic) -> None:
    wanted = [{"topic_name": topic.name, "partitions": indexes} for indexes in ([0, 0], [1, 0])]
    group = {"group_id": f"unknown-{topic.name}", "topics": wanted}
    described = client.call("describe_share_group_offsets", 1, groups=[group] * 2).groups
    found = [sorted(one.partition_index for one in each.topics[0].partitions) for each in described]
    assert found == [[0, 1]] * 2
    assert [len(each.topics) for each in described] == [1, 1]


def test_offsets_of_a_topic_are_deleted_in_one_result(
    client: RawClient, topic: Topic, group: str
) -> None:
    topics = [
        {"name": topic.name, "partitions": [{"partition_index": index} for index in indexes]}
        for indexes in ([0, 0, 9], [], [1])
    ]
    (deleted,) = client.call("offset_delete", 0, group_id=group, topics=topics).topics
    codes = [(one.partition_index, one.error_code) for one in deleted.partitions]
    known, unknown = ErrorCode.none, ErrorCode.unknown_topic_or_partition
    assert sorted(codes) == [(0, known), (0, known), (1, known), (9, unknown)]


def test_a_topic_whose_deletion_is_requested_twice_is_refused_once(
    client: RawClient, topic: Topic
) -> None:
    names = [topic.name, topic.name]
    answer = client.call("delete_topics", 5, topic_names=names, timeout=1000)
    codes = [(one.name, one.error_code) for one in answer.responses]
    assert codes == [(topic.name, ErrorCode.invalid_request)]
