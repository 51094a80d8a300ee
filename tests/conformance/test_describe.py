"""The cluster, topics page by page, folders and epochs, as the broker describes them."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import batch
from tests.conformance.calls import Topic, cluster, produce
from tests.conformance.raw import RawClient

MakeTopic = Callable[..., Topic]
UNSET_OPERATIONS = -(2**31)
ALL_TOPIC_OPERATIONS, ALL_CLUSTER_OPERATIONS = 3576, 8096
BROKERS, CONTROLLERS = 1, 2


def describe_cluster(client: RawClient, **fields: Any) -> Any:
    usual = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    return client.call("describe_cluster", 2, **(usual | fields))


def test_the_cluster_has_the_same_id_everywhere(client: RawClient) -> None:
    described = describe_cluster(client)
    assert described.cluster_id == cluster(client).cluster_id
    assert described.endpoint_type == BROKERS
    assert not described.brokers[0].is_fenced


def test_allowed_operations_on_the_cluster_are_described_on_request(client: RawClient) -> None:
    assert describe_cluster(client).cluster_authorized_operations == UNSET_OPERATIONS
    told = describe_cluster(client, include_cluster_authorized_operations=True)
    assert told.cluster_authorized_operations == ALL_CLUSTER_OPERATIONS


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (CONTROLLERS, ErrorCode.mismatched_endpoint_type),
        (9, ErrorCode.unsupported_endpoint_type),
    ],
)
def test_only_brokers_are_to_be_had_here(
    client: RawClient, endpoint_type: int, code: ErrorCode
) -> None:
    answer = describe_cluster(client, endpoint_type=endpoint_type)
    assert (answer.error_code, answer.brokers) == (code, ())
    assert answer.error_message


def page(
    client: RawClient, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[dict[str, list[int]], tuple[str, int] | None]:
    """One page of partitions by topic, and where the next one starts."""
    start = cursor and {"topic_name": cursor[0], "partition_index": cursor[1]}
    answer = client.call(
        "describe_topic_partitions",
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=start,
    )
    assert all(one.error_code == ErrorCode.none for one in answer.topics)
    found = {one.name: [each.partition_index for each in one.partitions] for one in answer.topics}
    following = answer.next_cursor
    return found, following and (following.topic_name, following.partition_index)


@pytest.fixture
def two_topics(make_topic: MakeTopic) -> tuple[str, str]:
    """Two topics with two partitions each, in the order of their names."""
    names = sorted([make_topic(2).name, make_topic(2).name])
    return names[0], names[1]


def test_topics_are_described_in_the_order_of_their_names(
    client: RawClient, two_topics: tuple[str, str]
) -> None:
    first, second = two_topics
    found, following = page(client, [second, first, second])
    assert (list(found), following) == ([first, second], None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_pages_hold_as_much_as_the_limit_and_miss_nothing(
    client: RawClient, two_topics: tuple[str, str], limit: int
) -> None:
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(5):
        found, cursor = page(client, list(two_topics), limit, cursor)
        partitions = [(name, one) for name, indexes in found.items() for one in indexes]
        assert len(partitions) <= limit
        seen += partitions
        if cursor is None:
            break
    assert seen == [(name, one) for name in two_topics for one in (0, 1)]


def test_a_page_that_ends_with_a_topic_goes_on_with_the_next(
    client: RawClient, two_topics: tuple[str, str]
) -> None:
    assert page(client, list(two_topics), 2)[1] == (two_topics[1], 0)


def test_a_limit_below_one_counts_as_one(client: RawClient, two_topics: tuple[str, str]) -> None:
    first, _ = two_topics
    assert page(client, [first], 0) == ({first: [0]}, (first, 1))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere", ErrorCode.unknown_topic_or_partition),
        ("a b", ErrorCode.invalid_topic_exception),
    ],
)
def test_a_topic_that_is_not_there(client: RawClient, name: str, code: ErrorCode) -> None:
    answer = client.call("describe_topic_partitions", 0, topics=[{"name": name}])
    (found,) = answer.topics
    assert (found.name, found.error_code, found.partitions) == (name, code, ())


def test_a_cursor_at_a_topic_not_asked_for_is_refused(
    client: RawClient, two_topics: tuple[str, str]
) -> None:
    answer = client.call(
        "describe_topic_partitions",
        0,
        topics=[{"name": name} for name in two_topics],
        cursor={"topic_name": f"{two_topics[0]}-", "partition_index": 0},
    )
    assert {one.error_code for one in answer.topics} == {ErrorCode.invalid_request}


@pytest.mark.parametrize("partition", [-1, -3, -(2**31)])
def test_a_cursor_at_a_negative_partition_is_refused(
    client: RawClient, two_topics: tuple[str, str], partition: int
) -> None:
    answer = client.call(
        "describe_topic_partitions",
        0,
        topics=[{"name": name} for name in two_topics],
        cursor={"topic_name": two_topics[0], "partition_index": partition},
    )
    assert {one.error_code for one in answer.topics} == {ErrorCode.invalid_request}


@pytest.mark.parametrize("partition", [2, 3, 1_000_000])
def test_a_cursor_behind_the_last_partition_goes_on_with_the_next_topic(
    client: RawClient, two_topics: tuple[str, str], partition: int
) -> None:
    first, second = two_topics
    found, following = page(client, [first, second], limit=1, cursor=(first, partition))
    assert (found, following) == ({first: [], second: [0]}, (second, 1))


def test_a_described_partition_names_leader_and_replicas(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    wanted = [{"name": topic.name}]
    (found,) = client.call("describe_topic_partitions", 0, topics=wanted).topics
    assert found.topic_authorized_operations == ALL_TOPIC_OPERATIONS
    (partition,) = found.partitions
    me = partition.leader_id
    assert (partition.leader_epoch, partition.offline_replicas) == (0, ())
    assert partition.replica_nodes == partition.isr_nodes == (me,)
    assert partition.eligible_leader_replicas == partition.last_known_elr == ()


def log_sizes(client: RawClient, topics: Any) -> dict[tuple[str, int], int]:
    """The bytes of each partition in the broker's one folder."""
    (folder,) = client.call("describe_log_dirs", 5, topics=topics).results
    assert folder.error_code == ErrorCode.none
    return {
        (topic.name, one.partition_index): one.partition_size
        for topic in folder.topics
        for one in topic.partitions
    }


def test_log_dirs_have_the_size_of_partitions(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    records = batch(b"x" * 1000)
    for _ in range(3):
        produce(client, topic, records, partition=1)
    sizes = log_sizes(client, [{"topic": topic.name, "partitions": [0, 1]}])
    assert sizes == {(topic.name, 0): 0, (topic.name, 1): 3 * len(records)}
    assert sizes.items() <= log_sizes(client, None).items()


@pytest.mark.parametrize("topics", [[], [{"topic": "nowhere", "partitions": [0]}]])
def test_log_dirs_leave_out_what_is_not_there(client: RawClient, topics: Any) -> None:
    assert log_sizes(client, topics) == {}


def epoch_end(
    client: RawClient, topic: Topic, epoch: int, current_epoch: int = -1, partition: int = 0
) -> tuple[ErrorCode, int, int]:
    wanted = {
        "partition": partition,
        "leader_epoch": epoch,
        "current_leader_epoch": current_epoch,
    }
    asked = [{"topic": topic.name, "partitions": [wanted]}]
    answer = client.call("offset_for_leader_epoch", 4, replica_id=-1, topics=asked)
    (found,) = answer.topics[0].partitions
    return found.error_code, found.leader_epoch, found.end_offset


def test_the_current_epoch_ends_at_the_end_of_the_log(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    assert epoch_end(client, topic, 0) == (ErrorCode.none, 0, 0)
    produce(client, topic, batch(b"a", b"b"))
    assert epoch_end(client, topic, 0) == (ErrorCode.none, 0, 2)


def test_an_epoch_that_never_was_has_no_end(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    for epoch in (1, -1):
        assert epoch_end(client, topic, epoch) == (ErrorCode.none, -1, -1)


def test_the_callers_epoch_is_checked(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert epoch_end(client, topic, 0, current_epoch=0)[0] == ErrorCode.none
    assert epoch_end(client, topic, 0, current_epoch=1)[0] == ErrorCode.unknown_leader_epoch


def test_epochs_of_what_is_not_there(client: RawClient, make_topic: MakeTopic) -> None:
    unknown = (ErrorCode.unknown_topic_or_partition, -1, -1)
    assert epoch_end(client, Topic("nowhere", None), 0) == unknown
    assert epoch_end(client, make_topic(), 0, partition=9) == unknown
