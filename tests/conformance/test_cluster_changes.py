"""Requests that change a cluster, or describe such changes, as far as one broker can mean them."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.calls import Topic, cluster
from tests.conformance.offered import versions_of
from tests.conformance.raw import RawClient

MakeTopic = Callable[..., Topic]
OK = ErrorCode.none
UNKNOWN = ErrorCode.unknown_topic_or_partition
PREFERRED, UNCLEAN = 0, 1
METADATA = "__cluster_metadata"
TIMEOUT_MS = 10_000


def versions(api: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", versions_of(api))


def elect(
    client: RawClient, wanted: dict[str, list[int]] | None, kind: int = PREFERRED, version: int = 2
) -> dict[str, list[tuple[int, ErrorCode]]]:
    topics = wanted and [{"topic": name, "partitions": which} for name, which in wanted.items()]
    answer = client.call(
        "elect_leaders", version, election_type=kind, topic_partitions=topics, timeout=TIMEOUT_MS
    )
    if version >= 1:
        assert answer.error_code == OK
    return {
        topic.topic: [(one.partition_id, one.error_code) for one in topic.partition_result]
        for topic in answer.replica_election_results
    }


@versions("elect_leaders")
@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_the_only_replica_needs_no_election(
    client: RawClient, make_topic: MakeTopic, version: int, kind: int
) -> None:
    topic = make_topic(2).name
    not_needed = ErrorCode.election_not_needed
    found = elect(client, {topic: [1, 0, 0]}, kind if version else PREFERRED, version)
    assert found == {topic: [(1, not_needed), (0, not_needed), (0, not_needed)]}


def test_an_election_for_all_partitions_names_only_those_that_needed_one(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(2).name
    found = elect(client, None)
    assert found[topic] == []
    assert not any(found.values())


def test_no_election_for_what_is_not_there(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic().name
    found = elect(client, {topic: [9, -1], "nowhere": [0], "a b": [0]})
    assert found == {
        topic: [(9, UNKNOWN), (-1, UNKNOWN)],
        "nowhere": [(0, UNKNOWN)],
        "a b": [(0, UNKNOWN)],
    }


def test_an_unknown_type_of_election_is_refused(client: RawClient, make_topic: MakeTopic) -> None:
    wanted = [{"topic": make_topic().name, "partitions": [0]}]
    answer = client.call(
        "elect_leaders", 2, election_type=7, topic_partitions=wanted, timeout=TIMEOUT_MS
    )
    (result,) = answer.replica_election_results[0].partition_result
    assert answer.error_code == result.error_code == ErrorCode.invalid_request
    assert result.error_message


def reassign(
    client: RawClient, topic: str, *wanted: tuple[int, list[int] | None], version: int = 1
) -> list[tuple[int, ErrorCode]]:
    partitions = [{"partition_index": index, "replicas": nodes} for index, nodes in wanted]
    answer = client.call(
        "alter_partition_reassignments",
        version,
        timeout=TIMEOUT_MS,
        topics=[{"name": topic, "partitions": partitions}],
    )
    assert (answer.error_code, answer.responses[0].name) == (OK, topic)
    return [(one.partition_index, one.error_code) for one in answer.responses[0].partitions]


@versions("alter_partition_reassignments")
def test_a_partition_stays_on_its_broker(
    client: RawClient, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic(2).name
    (broker,) = cluster(client).brokers
    stay = (0, [broker.node_id]), (1, [broker.node_id])
    assert reassign(client, topic, *stay, version=version) == [(0, OK), (1, OK)]
    answer = client.call("list_partition_reassignments", 0, timeout=TIMEOUT_MS, topics=None)
    assert (answer.error_code, answer.topics) == (OK, ())


@pytest.mark.parametrize("replicas", [[2], [1, 2], [1, 1], [-1], []])
def test_there_is_no_other_broker_to_move_to(
    client: RawClient, make_topic: MakeTopic, replicas: list[int]
) -> None:
    impossible = ErrorCode.invalid_replica_assignment
    assert reassign(client, make_topic().name, (0, replicas)) == [(0, impossible)]


def test_there_is_no_reassignment_to_cancel(client: RawClient, make_topic: MakeTopic) -> None:
    none = ErrorCode.no_reassignment_in_progress
    assert reassign(client, make_topic().name, (0, None)) == [(0, none)]


def test_what_is_not_there_cannot_be_reassigned(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic().name
    assert reassign(client, topic, (9, [1]), (-1, None)) == [(9, UNKNOWN), (-1, UNKNOWN)]
    assert reassign(client, "nowhere", (0, [1])) == [(0, UNKNOWN)]


@pytest.mark.parametrize("name", [None, "nowhere"])
def test_no_reassignment_is_in_progress(
    client: RawClient, make_topic: MakeTopic, name: str | None
) -> None:
    wanted = [{"name": name or make_topic().name, "partition_indexes": [0, 9]}]
    answer = client.call("list_partition_reassignments", 0, timeout=TIMEOUT_MS, topics=wanted)
    assert (answer.error_code, answer.topics) == (OK, ())


def move(
    client: RawClient, *wanted: tuple[str, str, list[int]], version: int = 2
) -> dict[str, dict[int, ErrorCode]]:
    """Move partitions to folders; each is (path, topic, partitions)."""
    folders: dict[str, list[Any]] = {}
    for path, topic, partitions in wanted:
        folders.setdefault(path, []).append({"name": topic, "partitions": partitions})
    dirs = [{"path": path, "topics": topics} for path, topics in folders.items()]
    answer = client.call("alter_replica_log_dirs", version, dirs=dirs)
    return {
        topic.topic_name: {one.partition_index: one.error_code for one in topic.partitions}
        for topic in answer.results
    }


def log_dir(client: RawClient) -> str:
    (folder,) = client.call("describe_log_dirs", 5, topics=()).results
    path: str = folder.log_dir
    return path


@versions("alter_replica_log_dirs")
def test_partitions_are_in_the_only_folder_already(
    client: RawClient, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic(2).name
    moved = move(client, (log_dir(client), topic, [0, 1]), version=version)
    assert moved == {topic: {0: OK, 1: OK}}


@pytest.mark.parametrize("path", ["/nowhere", "relative", ""])
def test_there_is_no_other_folder(client: RawClient, make_topic: MakeTopic, path: str) -> None:
    topic = make_topic().name
    missing = ErrorCode.log_dir_not_found
    assert move(client, (path, topic, [0, 9])) == {topic: {0: missing, 9: missing}}


def test_what_is_not_there_cannot_be_moved(client: RawClient, make_topic: MakeTopic) -> None:
    topic, path = make_topic().name, log_dir(client)
    moved = move(client, (path, topic, [9, -1]), (path, "nowhere", [0]))
    assert moved == {topic: {9: UNKNOWN, -1: UNKNOWN}, "nowhere": {0: UNKNOWN}}


def test_the_last_folder_named_for_a_partition_counts(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic, path = make_topic(2).name, log_dir(client)
    moved = move(client, (path, topic, [0, 1]), ("/nowhere", topic, [0]))
    assert moved == {topic: {0: ErrorCode.log_dir_not_found, 1: OK}}


def describe_quorum(client: RawClient, *partitions: tuple[str, int], version: int = 2) -> Any:
    topics = [
        {"topic_name": topic, "partitions": [{"partition_index": index}]}
        for topic, index in partitions
    ]
    return client.call("describe_quorum", version, topics=topics)


@versions("describe_quorum")
def test_the_broker_is_the_only_voter_and_leads(client: RawClient, version: int) -> None:
    (broker,) = cluster(client).brokers
    answer = describe_quorum(client, (METADATA, 0), version=version)
    assert (answer.error_code, answer.topics[0].topic_name) == (OK, METADATA)
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.partition_index) == (OK, 0)
    assert (partition.leader_id, partition.observers) == (broker.node_id, ())
    (voter,) = partition.current_voters
    assert voter.replica_id == broker.node_id
    assert 0 <= partition.high_watermark <= voter.log_end_offset
    if version >= 1:
        assert 0 < voter.last_fetch_timestamp <= voter.last_caught_up_timestamp
    if version >= 2:
        assert [node.node_id for node in answer.nodes] == [broker.node_id]


def test_the_quorum_is_that_of_the_metadata_only(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic().name
    for asked in ([(topic, 0)], [(METADATA, 1)], [(METADATA, 0), (topic, 0)]):
        answer = describe_quorum(client, *asked)
        assert (answer.error_code, answer.nodes) == (OK, ())
        codes = {one.error_code for found in answer.topics for one in found.partitions}
        assert codes == {UNKNOWN}
    assert describe_quorum(client).topics == ()


def update_features(
    client: RawClient, *updates: tuple[str, int, int], validate: bool = False, version: int = 2
) -> Any:
    """Send updates: (feature, level, type of upgrade)."""
    wanted = [
        {
            "feature": name,
            "max_version_level": level,
            "upgrade_type": kind,
            "allow_downgrade": False,
        }
        for name, level, kind in updates
    ]
    return client.call(
        "update_features",
        version,
        timeout=TIMEOUT_MS,
        feature_updates=wanted,
        validate_only=validate,
    )


UPGRADE, SAFE_DOWNGRADE = 1, 2


@versions("update_features")
def test_a_feature_may_be_updated_to_its_level(client: RawClient, version: int) -> None:
    levels = [("transaction.version", 2, UPGRADE), ("group.version", 1, UPGRADE)]
    answer = update_features(client, *levels, version=version)
    assert answer.error_code == OK
    if version <= 1:
        assert {one.feature: one.error_code for one in answer.results} == {
            "transaction.version": OK,
            "group.version": OK,
        }
    assert update_features(client, version=version).error_code == OK


@versions("update_features")
@pytest.mark.parametrize(
    ("feature", "level"),
    [
        pytest.param("nonsense", 1, id="unknown"),
        pytest.param("transaction.version", 9, id="unsupported level"),
        pytest.param("transaction.version", 1, id="downgrade"),
        pytest.param("share.version", -1, id="negative"),
    ],
)
def test_no_feature_is_updated_if_one_cannot_be(
    client: RawClient, version: int, feature: str, level: int
) -> None:
    updates = [("group.version", 1, UPGRADE), (feature, level, UPGRADE)]
    answer = update_features(client, *updates, version=version)
    assert answer.error_code == ErrorCode.invalid_update_version
    assert answer.error_message
    assert version > 1 or answer.results == ()


@pytest.mark.parametrize("kind", [0, 9])
def test_an_unknown_type_of_upgrade_is_refused(client: RawClient, kind: int) -> None:
    answer = update_features(client, ("transaction.version", 1, kind), validate=True)
    assert answer.error_code == ErrorCode.invalid_update_version


def test_a_feature_can_be_downgraded(client: RawClient) -> None:
    answer = update_features(client, ("transaction.version", 1, SAFE_DOWNGRADE), validate=True)
    assert answer.error_code == OK


@versions("unregister_broker")
def test_a_broker_that_is_not_registered_cannot_be_removed(client: RawClient, version: int) -> None:
    answer = client.call("unregister_broker", version, broker_id=7)
    assert answer.error_code == ErrorCode.broker_id_not_registered
    assert answer.error_message
