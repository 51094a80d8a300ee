"""Metadata: the map every client finds its way by, and how asking for a topic creates it."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.calls import NO_AUTO_CREATION, Topic, describe, wait_for_partitions
from tests.conformance.raw import RawClient

MakeTopic = Callable[..., Topic]
UNSET_OPERATIONS = -(2**31)
ALL_TOPIC_OPERATIONS, ALL_CLUSTER_OPERATIONS = 3576, 8096
"""Bit sets: what a client may do where no one is refused anything."""


def ask(client: RawClient, *topics: tuple[str | None, Any], **options: Any) -> list[Any]:
    """What the broker says of these names and ids, in version 12."""
    asked = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    return list(client.call("metadata", 12, topics=asked, **(NO_AUTO_CREATION | options)).topics)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere", ErrorCode.unknown_topic_or_partition),
        ("a b", ErrorCode.invalid_topic_exception),
        ("", ErrorCode.invalid_topic_exception),
        ("x" * 250, ErrorCode.invalid_topic_exception),
    ],
)
@pytest.mark.parametrize("version", [4, 12])
def test_a_topic_that_is_not_there(
    client: RawClient, name: str, code: ErrorCode, version: int
) -> None:
    asked = [{"name": name, "topic_id": None}]
    (answer,) = client.call("metadata", version, topics=asked, **NO_AUTO_CREATION).topics
    assert (answer.name, answer.error_code, answer.partitions) == (name, code, ())


def test_a_topic_is_found_by_id(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    (answer,) = ask(client, (None, topic.id))
    assert (answer.error_code, answer.name, answer.topic_id) == (ErrorCode.none, *topic)
    assert len(answer.partitions) == 2


def test_an_unknown_id(client: RawClient) -> None:
    unknown = uuid4()
    (answer,) = ask(client, (None, unknown))
    assert (answer.error_code, answer.topic_id) == (ErrorCode.unknown_topic_id, unknown)
    assert not answer.name


def test_a_topic_asked_for_twice_is_described_once(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    assert len(ask(client, (topic.name, None), (topic.name, None))) == 1


@pytest.mark.parametrize(("version", "everything"), [(0, ()), (1, None), (12, None)])
def test_all_topics(
    client: RawClient, make_topic: MakeTopic, version: int, everything: Any
) -> None:
    names = {make_topic().name for _ in range(2)}
    answer = client.call("metadata", version, topics=everything, **NO_AUTO_CREATION)
    assert names <= {one.name for one in answer.topics}


@pytest.mark.parametrize("version", [1, 4, 12])
def test_no_topics_still_lists_the_brokers(client: RawClient, version: int) -> None:
    answer = client.call("metadata", version, topics=(), **NO_AUTO_CREATION)
    assert answer.topics == ()
    (broker,) = answer.brokers
    assert answer.controller_id == broker.node_id
    assert broker.rack is None


@pytest.mark.parametrize("version", [0, 3, 4, 12])
def test_asking_for_a_topic_creates_it(client: RawClient, topic: str, version: int) -> None:
    asked = [{"name": topic, "topic_id": None}]
    options = {"allow_auto_topic_creation": True}
    (first,) = client.call("metadata", version, topics=asked, **(NO_AUTO_CREATION | options)).topics
    # Kafka creates it behind the answer; a broker that creates it at once may say so.
    assert first.error_code in {
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
    }
    found = wait_for_partitions(client, topic, 1)
    assert found.error_code == ErrorCode.none


def test_asking_with_auto_creation_off_creates_nothing(client: RawClient, topic: str) -> None:
    for _ in range(2):
        assert describe(client, topic).error_code == ErrorCode.unknown_topic_or_partition


def test_asking_for_a_bad_name_creates_nothing(client: RawClient) -> None:
    (answer,) = ask(client, ("a b", None), allow_auto_topic_creation=True)
    assert answer.error_code == ErrorCode.invalid_topic_exception


def test_allowed_operations_are_listed_only_on_request(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    (plain,) = ask(client, (topic.name, None))
    assert plain.topic_authorized_operations == UNSET_OPERATIONS
    (told,) = ask(client, (topic.name, None), include_topic_authorized_operations=True)
    assert told.topic_authorized_operations == ALL_TOPIC_OPERATIONS


def test_allowed_cluster_operations_are_listed_on_request(client: RawClient) -> None:
    options = NO_AUTO_CREATION | {"include_cluster_authorized_operations": True}
    told = client.call("metadata", 10, topics=(), **options)
    assert told.cluster_authorized_operations == ALL_CLUSTER_OPERATIONS


def test_ordinary_topics_are_not_internal(client: RawClient, make_topic: MakeTopic) -> None:
    (answer,) = ask(client, (make_topic().name, None))
    assert answer.is_internal is False
