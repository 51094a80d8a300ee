"""Creating, deleting and widening topics: what is allowed, and the code for what is not."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.calls import (
    Topic,
    cluster,
    describe,
    list_offset,
    wait_for_partitions,
    wait_until_gone,
)
from tests.conformance.raw import RawClient

MakeTopic = Callable[..., Topic]
TIMEOUT_MS = 10_000
INVALID_NAMES = ["", ".", "..", " ", "a b", "a/b", "a:b", "ä", "x" * 250]


def wanted(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """One topic of a create request; `configs` as pairs, `assignments` as lists of broker ids."""
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [
            {"partition_index": index, "broker_ids": brokers}
            for index, brokers in more.get("assignments", ())
        ],
        "configs": [{"name": key, "value": value} for key, value in more.get("configs", ())],
    }


def create(client: RawClient, *topics: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Ask for topics; the answers by name."""
    answer = client.call("create_topics", 7, topics=topics, timeout=TIMEOUT_MS, **options)
    return {one.name: one for one in answer.topics}


def create_one(client: RawClient, name: str, *sizes: int, **more: Any) -> Any:
    """Ask for one topic; its answer."""
    return create(client, wanted(name, *sizes, **more))[name]


def test_minus_one_means_the_brokers_defaults(client: RawClient, topic: str) -> None:
    answer = create_one(client, topic, -1, -1)
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    assert (answer.num_partitions, answer.replication_factor) == (1, 1)


def test_a_topic_that_exists_is_not_created_again(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    answer = create_one(client, topic.name, 5)
    assert answer.error_code == ErrorCode.topic_already_exists
    assert answer.error_message
    assert (answer.topic_id, answer.num_partitions) == (None, -1)
    assert len(describe(client, topic.name).partitions) == 2


@pytest.mark.parametrize("name", INVALID_NAMES)
def test_a_bad_name_is_refused(client: RawClient, name: str) -> None:
    answer = create_one(client, name)
    assert answer.error_code == ErrorCode.invalid_topic_exception
    assert answer.error_message


def test_a_name_may_have_249_characters(client: RawClient, topic: str) -> None:
    name = topic.ljust(249, "x")
    assert create_one(client, name).error_code == ErrorCode.none
    assert describe(client, wait_for_partitions(client, name, 1).name).error_code == ErrorCode.none


def test_names_that_differ_only_in_dot_and_underscore_collide(
    client: RawClient, topic: str
) -> None:
    assert create_one(client, f"{topic}.a_b").error_code == ErrorCode.none
    collides = create_one(client, f"{topic}_a.b")
    assert collides.error_code == ErrorCode.invalid_topic_exception


@pytest.mark.parametrize(
    ("sizes", "code"),
    [
        ((0, 1), ErrorCode.invalid_partitions),
        ((-2, 1), ErrorCode.invalid_partitions),
        ((1, 0), ErrorCode.invalid_replication_factor),
        ((1, -2), ErrorCode.invalid_replication_factor),
        ((1, 2), ErrorCode.invalid_replication_factor),
        ((10_001, 1), ErrorCode.policy_violation),
    ],
)
def test_impossible_sizes_are_refused(
    client: RawClient, topic: str, sizes: tuple[int, int], code: ErrorCode
) -> None:
    answer = create_one(client, topic, *sizes)
    assert answer.error_code == code
    assert answer.error_message
    assert describe(client, topic).error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.setting", "1"),
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("retention.ms", None),
        ("segment.bytes", "1"),
        ("cleanup.policy", "shred"),
        ("preallocate", "maybe"),
    ],
)
def test_a_bad_setting_is_refused(
    client: RawClient, topic: str, name: str, value: str | None
) -> None:
    answer = create_one(client, topic, configs=[(name, value)])
    assert answer.error_code == ErrorCode.invalid_config
    assert name in answer.error_message
    assert describe(client, topic).error_code == ErrorCode.unknown_topic_or_partition


def test_of_two_values_for_one_setting_the_last_counts(client: RawClient, topic: str) -> None:
    answer = create_one(client, topic, configs=[("retention.ms", "1"), ("retention.ms", "2")])
    assert answer.error_code == ErrorCode.none
    assert {one.name: one.value for one in answer.configs}["retention.ms"] == "2"


def test_a_name_twice_in_a_request_is_refused_and_the_others_are_created(
    client: RawClient, topic: str
) -> None:
    answers = create(client, wanted(topic), wanted(topic), wanted(f"{topic}-other"))
    assert {name: one.error_code for name, one in answers.items()} == {
        topic: ErrorCode.invalid_request,
        f"{topic}-other": ErrorCode.none,
    }
    assert describe(client, topic).error_code == ErrorCode.unknown_topic_or_partition


def test_one_bad_topic_does_not_stop_the_others(client: RawClient, topic: str) -> None:
    answers = create(client, wanted("a b"), wanted(topic, 2))
    assert answers["a b"].error_code == ErrorCode.invalid_topic_exception
    assert answers[topic].error_code == ErrorCode.none
    wait_for_partitions(client, topic, 2)


def test_validate_only_answers_as_if_and_creates_nothing(client: RawClient, topic: str) -> None:
    answers = create(client, wanted(topic, 2), wanted("a b"), validate_only=True)
    assert answers[topic].error_code == ErrorCode.none
    assert answers[topic].num_partitions == 2
    assert answers["a b"].error_code == ErrorCode.invalid_topic_exception
    assert describe(client, topic).error_code == ErrorCode.unknown_topic_or_partition


def test_validate_only_knows_what_exists(client: RawClient, make_topic: MakeTopic) -> None:
    name = make_topic().name
    answer = create(client, wanted(name), validate_only=True)[name]
    assert answer.error_code == ErrorCode.topic_already_exists


def test_partitions_may_be_placed_by_hand(client: RawClient, topic: str) -> None:
    broker = cluster(client).brokers[0].node_id
    placed = [(0, [broker]), (1, [broker])]
    answer = create_one(client, topic, -1, -1, assignments=placed)
    assert (answer.error_code, answer.num_partitions) == (ErrorCode.none, 2)


@pytest.mark.parametrize(
    ("sizes", "placed", "code"),
    [
        ((2, -1), [(0, ["me"])], ErrorCode.invalid_request),
        ((-1, 1), [(0, ["me"])], ErrorCode.invalid_request),
        ((-1, -1), [(0, [77])], ErrorCode.invalid_replica_assignment),
        ((-1, -1), [(0, ["me", "me"])], ErrorCode.invalid_replica_assignment),
        ((-1, -1), [(0, [])], ErrorCode.invalid_replica_assignment),
        ((-1, -1), [(0, ["me"]), (2, ["me"])], ErrorCode.invalid_replica_assignment),
        ((-1, -1), [(0, ["me"]), (0, ["me"])], ErrorCode.invalid_replica_assignment),
        ((-1, -1), [(-1, ["me"])], ErrorCode.invalid_replica_assignment),
    ],
    ids=["count too", "replicas too", "stranger", "twice", "nobody", "gap", "double", "negative"],
)
def test_an_impossible_placement_is_refused(
    client: RawClient, topic: str, sizes: tuple[int, int], placed: Any, code: ErrorCode
) -> None:
    me = cluster(client).brokers[0].node_id
    brokers = [(index, [me if one == "me" else one for one in ids]) for index, ids in placed]
    assert create_one(client, topic, *sizes, assignments=brokers).error_code == code


def test_the_metadata_log_of_a_cluster_is_out_of_bounds(client: RawClient) -> None:
    assert create_one(client, "__cluster_metadata").error_code == ErrorCode.invalid_request


def delete(client: RawClient, *topics: tuple[str | None, Any]) -> list[Any]:
    """Ask to delete topics by name or by id; the answers in order."""
    asked = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    return list(client.call("delete_topics", 6, topics=asked, timeout=TIMEOUT_MS).responses)


def test_a_topic_is_deleted_by_id(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    (answer,) = delete(client, (None, topic.id))
    assert (answer.error_code, answer.name, answer.topic_id) == (ErrorCode.none, *topic)
    wait_until_gone(client, topic.name)
    (again,) = delete(client, (None, topic.id))
    assert (again.error_code, again.name) == (ErrorCode.unknown_topic_id, None)


@pytest.mark.parametrize(
    ("name", "topic_id", "code"),
    [
        ("nowhere", None, ErrorCode.unknown_topic_or_partition),
        ("a b", None, ErrorCode.unknown_topic_or_partition),
        (None, uuid4(), ErrorCode.unknown_topic_id),
        ("nowhere", uuid4(), ErrorCode.invalid_request),
        (None, None, ErrorCode.invalid_request),
    ],
    ids=["unknown", "bad name", "unknown id", "name and id", "neither"],
)
def test_what_cannot_be_deleted(
    client: RawClient, name: str | None, topic_id: Any, code: ErrorCode
) -> None:
    (answer,) = delete(client, (name, topic_id))
    assert answer.error_code == code
    assert answer.error_message


def test_a_name_twice_in_a_delete_request_deletes_nothing(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    codes = {one.error_code for one in delete(client, (topic.name, None), (topic.name, None))}
    assert codes == {ErrorCode.invalid_request}
    assert describe(client, topic.name).error_code == ErrorCode.none


def widen(client: RawClient, name: str, count: int, **more: Any) -> Any:
    """Ask for more partitions; the answer."""
    asked = {"name": name, "count": count, "assignments": more.get("assignments")}
    answer = client.call(
        "create_partitions",
        3,
        topics=[asked],
        timeout=TIMEOUT_MS,
        validate_only=more.get("validate_only", False),
    )
    return answer.results[0]


def test_a_topic_grows(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    answer = widen(client, topic.name, 4)
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    wait_for_partitions(client, topic.name, 4)
    assert list_offset(client, topic, -1, partition=3).offset == 0


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_a_topic_never_shrinks(client: RawClient, make_topic: MakeTopic, count: int) -> None:
    topic = make_topic(2)
    answer = widen(client, topic.name, count)
    assert answer.error_code == ErrorCode.invalid_partitions
    assert answer.error_message
    assert len(describe(client, topic.name).partitions) == 2


def test_growing_can_be_tried_out(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    assert widen(client, topic.name, 4, validate_only=True).error_code == ErrorCode.none
    assert len(describe(client, topic.name).partitions) == 2


@pytest.mark.parametrize("name", ["nowhere", "a b"])
def test_an_unknown_topic_does_not_grow(client: RawClient, name: str) -> None:
    assert widen(client, name, 4).error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("brokers", [[], [[77]], [["me"], ["me"]]])
def test_new_partitions_need_a_possible_placement(
    client: RawClient, make_topic: MakeTopic, brokers: Any
) -> None:
    topic = make_topic()
    me = cluster(client).brokers[0].node_id
    assignments = [{"broker_ids": [me if one == "me" else one for one in ids]} for ids in brokers]
    answer = widen(client, topic.name, 2, assignments=assignments)
    assert answer.error_code == ErrorCode.invalid_replica_assignment
