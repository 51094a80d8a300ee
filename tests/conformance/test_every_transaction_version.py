"""Every version that Kafka 4.3.1 offers of the requests of transactions gets a call that succeeds."""

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.calls import Topic, fetch
from tests.conformance.members import committed
from tests.conformance.members import find_coordinator as find_group_coordinator
from tests.conformance.offered import versions_of
from tests.conformance.producers import (
    READ_COMMITTED,
    Producer,
    add_many,
    describe_transaction,
    wait_for_state,
)
from tests.conformance.raw import RawClient

OK = ErrorCode.none
FIRST_ADD_OF_MANY = 4
FIRST_END_WITH_EPOCH = 5
MakeTopic = Callable[..., Topic]


def versions(api: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", versions_of(api))


@pytest.fixture
def producer(client: RawClient, topic: str) -> Producer:
    one = Producer(client, topic)
    one.begin()
    return one


@versions("init_producer_id")
def test_init_producer_id(producer: Producer, version: int) -> None:
    answer = producer.ask_for_id(version=version)
    assert (answer.error_code, answer.producer_id) == (OK, producer.id)
    assert answer.producer_epoch == producer.epoch + 1


@versions("add_partitions_to_txn")
def test_add_partitions(
    client: RawClient, make_topic: MakeTopic, producer: Producer, version: int
) -> None:
    topic = make_topic()
    if version < FIRST_ADD_OF_MANY:
        assert producer.add(topic, version=version) == {0: OK}
    else:
        wanted = {
            "transactional_id": producer.transactional_id,
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "verify_only": False,
            "topics": [{"name": topic.name, "partitions": [0]}],
        }
        (answer,) = add_many(client, version, [wanted]).results_by_transaction
        assert answer.topic_results[0].results_by_partition[0].partition_error_code == OK
    assert describe_transaction(client, producer.transactional_id).transaction_state == "Ongoing"


@versions("add_offsets_to_txn")
def test_add_offsets(client: RawClient, topic: str, producer: Producer, version: int) -> None:
    find_group_coordinator(client, topic)
    assert producer.add_offsets(topic, version=version) == OK
    assert describe_transaction(client, producer.transactional_id).transaction_state == "Ongoing"


@versions("txn_offset_commit")
def test_offsets_are_committed(
    client: RawClient, make_topic: MakeTopic, topic: str, producer: Producer, version: int
) -> None:
    find_group_coordinator(client, topic)
    assert producer.add_offsets(topic) == OK
    target = make_topic()
    assert producer.commit_offsets(topic, target, {0: 3}, version=version) == {0: OK}
    producer.end(commit=True)
    assert committed(client, topic) == {(target.name, 0): 3}


@versions("produce")
def test_produce(
    client: RawClient, make_topic: MakeTopic, producer: Producer, version: int
) -> None:
    topic = make_topic()
    assert producer.add(topic) == {0: OK}
    assert producer.send(topic, b"a", version=version).error_code == OK
    producer.end(commit=True)


@versions("end_txn")
@pytest.mark.parametrize("commit", [True, False])
def test_end(
    client: RawClient, make_topic: MakeTopic, producer: Producer, version: int, commit: bool
) -> None:
    topic = make_topic()
    assert producer.send(topic, b"a").error_code == OK
    answer = producer.ask_to_end(commit=commit, version=version)
    assert answer.error_code == OK
    if version >= FIRST_END_WITH_EPOCH:
        assert (answer.producer_id, answer.producer_epoch) == (producer.id, producer.epoch + 1)
    state = "CompleteCommit" if commit else "CompleteAbort"
    wait_for_state(client, producer.transactional_id, state)


@versions("fetch")
def test_fetch_names_what_was_aborted(
    client: RawClient, make_topic: MakeTopic, producer: Producer, version: int
) -> None:
    topic = make_topic()
    producer.send(topic, b"a")
    first_id = producer.id
    producer.end(commit=False)
    found = fetch(client, topic, version=version, isolation_level=READ_COMMITTED)
    aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions]
    assert (aborted, found.last_stable_offset) == ([(first_id, 0)], 2)


@versions("write_txn_markers")
def test_write_markers(
    client: RawClient, make_topic: MakeTopic, producer: Producer, version: int
) -> None:
    topic = make_topic()
    producer.send(topic, b"a")
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "topics": [{"name": topic.name, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
        "transaction_version": 0,
    }
    (answer,) = client.call("write_txn_markers", version, markers=[marker]).markers
    assert answer.topics[0].partitions[0].error_code == OK
    assert fetch(client, topic).last_stable_offset == 2


@versions("list_transactions")
def test_list(client: RawClient, producer: Producer, version: int) -> None:
    answer = client.call(
        "list_transactions",
        version,
        state_filters=["Empty"],
        producer_id_filters=[producer.id],
        duration_filter=-1,
        transactional_id_pattern=None,
    )
    (one,) = answer.transaction_states
    assert (answer.error_code, one.transactional_id) == (OK, producer.transactional_id)
