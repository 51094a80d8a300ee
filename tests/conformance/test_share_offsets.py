"""Where share groups are in their partitions: described, reset and deleted by hand."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import batch
from tests.conformance.calls import Topic, produce
from tests.conformance.members import find_coordinator
from tests.conformance.raw import RawClient
from tests.conformance.sharers import ACCEPT, Acknowledged, Acquired, Sharer, set_group_configs
from tests.conftest import Target

OK = ErrorCode.none
MakeTopic = Callable[..., Topic]
MakeSharer = Callable[[], Sharer]


@pytest.fixture
def group(client: RawClient, topic: str) -> str:
    find_coordinator(client, topic)
    assert set_group_configs(client, topic, {"share.auto.offset.reset": "earliest"}) == OK
    return topic


@pytest.fixture
def shared(client: RawClient, make_topic: MakeTopic) -> Topic:
    """A topic of two partitions with ten records in the first."""
    made = make_topic(2)
    assert produce(client, made, batch(*(b"%d" % n for n in range(10)))).error_code == OK
    return made


@pytest.fixture
def make_sharer(target: Target, group: str, shared: Topic) -> Iterator[MakeSharer]:
    made: list[Sharer] = []

    def make() -> Sharer:
        made.append(Sharer(target.bootstrap_servers, group))
        made[-1].join(shared)
        return made[-1]

    yield make
    for one in made:
        one.client.socket.close()


@pytest.fixture
def left(make_sharer: MakeSharer, shared: Topic) -> Sharer:
    """A member that has dealt with some records and left: the group is empty."""
    sharer = make_sharer()
    assert sharer.acquire(shared) == [Acquired(0, 9, 1)]
    answer = sharer.acknowledge(
        (shared, 0, Acknowledged(0, 3, [ACCEPT])),
        (shared, 0, Acknowledged(6, 7, [ACCEPT])),
        share_session_epoch=-1,
    )
    assert answer.error_code == OK
    assert sharer.leave().error_code == OK
    return sharer


def places(client: RawClient, group: str, topic: Topic | None = None, version: int = 1) -> Any:
    topics = None if topic is None else [{"topic_name": topic.name, "partitions": [0, 1]}]
    wanted = [{"group_id": group, "topics": topics}]
    (answer,) = client.call("describe_share_group_offsets", version, groups=wanted).groups
    assert answer.error_code == OK
    return {
        (found.topic_name, one.partition_index): one
        for found in answer.topics
        for one in found.partitions
    }


def alter(client: RawClient, group: str, topic: Topic, offsets: dict[int, int]) -> Any:
    partitions = [
        {"partition_index": index, "start_offset": offset} for index, offset in offsets.items()
    ]
    topics = [{"topic_name": topic.name, "partitions": partitions}]
    return client.call("alter_share_group_offsets", 0, group_id=group, topics=topics)


def delete(client: RawClient, group: str, *topics: Topic) -> Any:
    names = [{"topic_name": topic.name} for topic in topics]
    return client.call("delete_share_group_offsets", 0, group_id=group, topics=names)


@pytest.mark.usefixtures("left")
def test_lag_is_what_is_not_dealt_with(client: RawClient, shared: Topic, group: str) -> None:
    found = places(client, group)
    assert set(found) == {(shared.name, 0), (shared.name, 1)}
    assert found[shared.name, 0].lag == 4
    assert (found[shared.name, 1].start_offset, found[shared.name, 1].lag) == (-1, -1)
    assert places(client, group, shared)[shared.name, 0].lag == 4


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize("version", [0, 1])
def test_every_version_works(client: RawClient, shared: Topic, group: str, version: int) -> None:
    found = places(client, group, version=version)[shared.name, 0]
    assert (found.error_code, found.leader_epoch) == (OK, 0)
    assert found.start_offset >= 0


def test_a_missing_group_is_unknown(client: RawClient, group: str) -> None:
    assert places(client, group) == {}


@pytest.mark.usefixtures("left")
def test_a_group_goes_on_from_where_it_is_moved_to(
    target: Target, client: RawClient, make_sharer: MakeSharer, shared: Topic, group: str
) -> None:
    answer = alter(client, group, shared, {0: 2})
    assert answer.error_code == OK
    ((one,),) = (topic.partitions for topic in answer.responses)
    assert one.error_code == OK
    found = places(client, group)[shared.name, 0]
    assert (found.start_offset, found.lag) == (2, 8)
    if target.name == "strom":  # Kafka 4.3.1 goes on with what it has in memory for a while
        assert make_sharer().acquire(shared) == [Acquired(2, 9, 1)]


def test_a_group_with_members_is_not_moved(
    client: RawClient, make_sharer: MakeSharer, shared: Topic, group: str
) -> None:
    make_sharer()
    assert alter(client, group, shared, {0: 2}).error_code == ErrorCode.non_empty_group
    assert delete(client, group, shared).error_code == ErrorCode.non_empty_group


@pytest.mark.usefixtures("left")
def test_what_is_not_there_cannot_be_moved(
    client: RawClient, shared: Topic, unknown_topic: Topic, group: str
) -> None:
    answer = alter(client, group, shared, {0: 3, 9: 0})
    codes = {one.partition_index: one.error_code for one in answer.responses[0].partitions}
    assert codes == {0: OK, 9: ErrorCode.unknown_topic_or_partition}
    answer = alter(client, group, unknown_topic, {0: 0})
    assert answer.error_code == OK
    (one,) = answer.responses[0].partitions
    assert one.error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.usefixtures("left")
def test_a_forgotten_topic_begins_again(
    target: Target,
    client: RawClient,
    make_sharer: MakeSharer,
    shared: Topic,
    unknown_topic: Topic,
    group: str,
) -> None:
    answer = delete(client, group, shared, unknown_topic)
    assert answer.error_code == OK
    codes = {one.topic_name: one.error_code for one in answer.responses}
    assert codes == {shared.name: OK, unknown_topic.name: ErrorCode.unknown_topic_or_partition}
    assert places(client, group) == {}
    if target.name == "strom":  # Kafka 4.3.1 goes on with what it has in memory for a while
        assert make_sharer().acquire(shared) == [Acquired(0, 9, 1)]


def test_offsets_of_a_group_that_is_not_there_cannot_be_forgotten(
    client: RawClient, shared: Topic, group: str
) -> None:
    assert delete(client, group, shared).error_code == ErrorCode.group_id_not_found


@pytest.mark.usefixtures("left")
def test_a_deleted_group_begins_again(
    target: Target, client: RawClient, make_sharer: MakeSharer, shared: Topic, group: str
) -> None:
    (deleted,) = client.call("delete_groups", 2, groups_names=[group]).results
    assert deleted.error_code == OK
    assert places(client, group) == {}
    assert set_group_configs(client, group, {"share.auto.offset.reset": "earliest"}) == OK
    if target.name == "strom":  # Kafka 4.3.1 goes on with what it has in memory for a while
        assert make_sharer().acquire(shared) == [Acquired(0, 9, 1)]
