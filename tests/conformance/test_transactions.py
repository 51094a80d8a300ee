"""Transactions by raw requests: what is seen of them, who is fenced, and every refusal."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import batch, read_batches, read_values
from tests.conformance.calls import (
    LATEST,
    Topic,
    end_offset,
    fetch,
    list_offset,
    produce_fields,
)
from tests.conformance.producers import (
    READ_COMMITTED,
    Producer,
    add_many,
    describe_transaction,
    find_coordinator,
    wait_for_state,
)
from tests.conformance.raw import RawClient

OK = ErrorCode.none
MakeTopic = Callable[..., Topic]
both_versions = pytest.mark.parametrize("version", [1, 2])
"""Of transactions: before KIP-890, and with it."""


@pytest.fixture
def producer(client: RawClient, topic: str, version: int) -> Producer:
    """A producer that has its id."""
    one = Producer(client, topic, version=version)
    one.begin()
    return one


def take_part(producer: Producer, topic: Topic, *partitions: int) -> None:
    """What a client of version 1 has to do before it writes."""
    if producer.version == 1:
        assert set(producer.add(topic, *partitions).values()) == {OK}


def send(producer: Producer, topic: Topic, *values: bytes, partition: int = 0) -> Any:
    take_part(producer, topic, partition)
    answer = producer.send(topic, *values, partition=partition)
    assert answer.error_code == OK, answer
    return answer


def committed(client: RawClient, topic: Topic, partition: int = 0) -> list[bytes | None]:
    """What a reader of committed records sees: up to the stable offset, without what was aborted."""
    found = fetch(client, topic, isolation_level=READ_COMMITTED, partition=partition)
    dropped = {one.producer_id: one.first_offset for one in found.aborted_transactions or ()}
    assert all(offset >= 0 for offset in dropped.values())
    return _without(found, set(dropped))


def _without(found: Any, producers: set[int]) -> list[bytes | None]:
    return [
        bytes(record.value)
        for one in read_batches(found.records)
        if not one.is_control_batch and one.producer_id not in producers
        for record in one
    ]


# --- what is seen ----------------------------------------------------------------------------


@both_versions
def test_what_is_committed_is_seen_and_not_before(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic(2)
    send(producer, topic, b"a", b"b")
    send(producer, topic, b"c", partition=1)
    assert fetch(client, topic, isolation_level=READ_COMMITTED).records in (b"", None)
    found = fetch(client, topic)
    assert read_values(found.records) == [b"a", b"b"]
    assert (found.high_watermark, found.last_stable_offset) == (2, 0)
    producer.end(commit=True)
    assert committed(client, topic) == [b"a", b"b"]
    assert committed(client, topic, partition=1) == [b"c"]
    found = fetch(client, topic, isolation_level=READ_COMMITTED)
    assert (found.high_watermark, found.last_stable_offset) == (3, 3)
    assert found.aborted_transactions in ((), None)


@both_versions
def test_what_is_aborted_is_named_to_readers_of_committed_records(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic()
    first_id = producer.id
    send(producer, topic, b"a", b"b")
    producer.end(commit=False)
    found = fetch(client, topic, isolation_level=READ_COMMITTED)
    aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions]
    assert aborted == [(first_id, 0)]
    assert found.last_stable_offset == 3
    assert fetch(client, topic).aborted_transactions is None
    assert committed(client, topic) == []


@both_versions
def test_the_marker_is_a_control_batch_with_the_producers_epoch(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic, epoch = make_topic(), producer.epoch
    send(producer, topic, b"a")
    producer.end(commit=True)
    data, marker = read_batches(fetch(client, topic).records)
    assert (data.is_transactional, data.is_control_batch) == (True, False)
    assert (marker.is_transactional, marker.is_control_batch) == (True, True)
    assert data.producer_epoch == epoch
    assert marker.producer_epoch == (epoch if producer.version == 1 else epoch + 1)
    assert (marker.producer_id, marker.base_sequence) == (producer.id, -1)


@both_versions
def test_latest_is_the_stable_offset_for_readers_of_committed_records(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic()
    send(producer, topic, b"a")
    producer.end(commit=True)
    send(producer, topic, b"b")
    wanted = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}
    answer = client.call(
        "list_offsets",
        11,
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[{"name": topic.name, "partitions": [wanted]}],
        timeout=10_000,
    )
    assert answer.topics[0].partitions[0].offset == 2
    assert list_offset(client, topic, LATEST).offset == 3
    producer.end(commit=False)


@both_versions
def test_transactions_follow_each_other(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic()
    for number in range(5):
        send(producer, topic, str(number).encode())
        producer.end(commit=number % 2 == 0)
    values = read_values(fetch(client, topic).records)
    assert [value for value in values if value and len(value) == 1] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
    ]
    assert end_offset(client, topic) == 10


# --- the state of a transaction --------------------------------------------------------------


@both_versions
def test_a_transaction_goes_through_its_states(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic, name = make_topic(2), producer.transactional_id
    found = describe_transaction(client, name)
    assert (found.transaction_state, found.transaction_start_time_ms) == ("Empty", -1)
    send(producer, topic, b"a", partition=1)
    found = describe_transaction(client, name)
    assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert found.transaction_start_time_ms > 0
    assert [(one.topic, one.partitions) for one in found.topics] == [(topic.name, [1])]
    epoch = producer.epoch
    producer.end(commit=True)
    found = describe_transaction(client, name)
    assert (found.transaction_state, found.topics) == ("CompleteCommit", [])
    assert found.producer_epoch == (epoch if producer.version == 1 else epoch + 1)
    producer.begin()
    found = describe_transaction(client, name)
    assert (found.transaction_state, found.producer_id) == ("Empty", producer.id)


def test_an_unknown_transactional_id(client: RawClient, topic: str) -> None:
    find_coordinator(client, topic)
    assert describe_transaction(client, topic).error_code == ErrorCode.transactional_id_not_found
    assert describe_transaction(client, "").error_code == ErrorCode.invalid_request


def test_transactions_are_listed_by_state_producer_and_pattern(
    client: RawClient, make_topic: MakeTopic, topic: str
) -> None:
    target = make_topic()
    names = [f"{topic}-{number}" for number in range(3)]
    producers = [Producer(client, name) for name in names]
    for one in producers:
        one.begin()
    send(producers[0], target, b"a")
    send(producers[1], target, b"b")
    producers[1].end(commit=True)

    def listed(**changes: Any) -> dict[str, str]:
        fields: dict[str, Any] = {
            "state_filters": (),
            "producer_id_filters": (),
            "duration_filter": -1,
            "transactional_id_pattern": f"{topic}-.*",
        }
        answer = client.call("list_transactions", 2, **(fields | changes))
        assert answer.error_code == OK
        return {one.transactional_id: one.transaction_state for one in answer.transaction_states}

    assert listed() == dict(zip(names, ["Ongoing", "CompleteCommit", "Empty"], strict=True))
    assert listed(state_filters=["Ongoing"]) == {names[0]: "Ongoing"}
    assert listed(producer_id_filters=[producers[2].id]) == {names[2]: "Empty"}
    assert listed(duration_filter=10**9)[names[2]] == "Empty"
    assert names[0] not in listed(duration_filter=10**9)
    assert listed(transactional_id_pattern=names[0][:-1]) == {}
    answer = client.call(
        "list_transactions",
        2,
        state_filters=["Ongoing", "Bogus"],
        producer_id_filters=(),
        duration_filter=-1,
        transactional_id_pattern=None,
    )
    assert answer.unknown_state_filters == ("Bogus",)
    producers[0].end(commit=False)


def test_a_pattern_that_is_none(client: RawClient, topic: str) -> None:
    find_coordinator(client, topic)
    answer = client.call(
        "list_transactions",
        2,
        state_filters=(),
        producer_id_filters=(),
        duration_filter=-1,
        transactional_id_pattern="[",
    )
    assert answer.error_code == ErrorCode.invalid_regular_expression


# --- fencing ---------------------------------------------------------------------------------


@both_versions
def test_a_new_producer_aborts_what_the_old_one_left_and_fences_it(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic(2)
    send(producer, topic, b"a")
    zombie, epoch = producer.zombie(), producer.epoch
    assert producer.ask_for_id().error_code == ErrorCode.concurrent_transactions
    wait_for_state(client, producer.transactional_id, "CompleteAbort")
    producer.begin()
    assert producer.epoch == epoch + 2
    late = zombie.send(topic, b"late")
    assert late.error_code == ErrorCode.invalid_producer_epoch
    assert zombie.add(topic, 1) == {1: ErrorCode.producer_fenced}
    for commit in (True, False):
        assert zombie.ask_to_end(commit=commit).error_code == ErrorCode.producer_fenced
    assert zombie.add_offsets("g") == ErrorCode.producer_fenced
    answer = zombie.ask_for_id(producer_id=zombie.id, producer_epoch=zombie.epoch)
    assert answer.error_code == ErrorCode.producer_fenced
    send(producer, topic, b"b")
    producer.end(commit=True)
    found = fetch(client, topic, isolation_level=READ_COMMITTED)
    assert [bytes(value or b"") for value in read_values(found.records)][::2] == [b"a", b"b"]
    assert [one.first_offset for one in found.aborted_transactions] == [0]


@both_versions
def test_a_producer_may_go_on_after_an_error_and_ask_twice(producer: Producer) -> None:
    was = {"producer_id": producer.id, "producer_epoch": producer.epoch}
    for _ in range(2):  # the first answer may have got lost
        answer = producer.ask_for_id(**was)
        assert (answer.error_code, answer.producer_epoch) == (OK, producer.epoch + 1)
    other = producer.ask_for_id()
    assert (other.error_code, other.producer_epoch) == (OK, producer.epoch + 2)
    assert producer.ask_for_id(**was).error_code == ErrorCode.producer_fenced


@both_versions
def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic()
    producer.begin(transaction_timeout=100)
    send(producer, topic, b"a")
    found = wait_for_state(client, producer.transactional_id, "CompleteAbort")
    assert found.producer_epoch == producer.epoch + 1
    assert fetch(client, topic).last_stable_offset == 2
    assert producer.send(topic, b"b").error_code == ErrorCode.invalid_producer_epoch
    code = producer.ask_to_end(commit=True).error_code
    too_late = {1: ErrorCode.producer_fenced, 2: ErrorCode.invalid_txn_state}
    assert code == too_late[producer.version]
    answer = producer.ask_for_id(producer_id=producer.id, producer_epoch=producer.epoch)
    assert (answer.error_code, answer.producer_epoch) == (OK, producer.epoch + 1)


@both_versions
def test_an_older_epoch_aborts_what_is_ongoing(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic()
    zombie = producer.zombie()
    producer.begin()
    send(producer, topic, b"a")
    answer = zombie.ask_for_id(producer_id=zombie.id, producer_epoch=zombie.epoch)
    assert answer.error_code == ErrorCode.concurrent_transactions
    wait_for_state(client, producer.transactional_id, "CompleteAbort")


@both_versions
def test_a_producer_with_another_producer_id_is_fenced(producer: Producer) -> None:
    answer = producer.ask_for_id(producer_id=10**12, producer_epoch=3)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.producer_fenced, -1)
    answer = producer.ask_for_id(producer_id=producer.id, producer_epoch=producer.epoch + 5)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.producer_fenced, -1)


# --- nothing late gets in --------------------------------------------------------------------


@pytest.mark.parametrize("version", [1])
def test_a_batch_for_a_partition_that_was_not_added_is_refused(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic(2)
    assert producer.send(topic, b"a", version=10).error_code == ErrorCode.invalid_txn_state
    assert producer.send(topic, b"a", version=11).error_code == ErrorCode.transaction_abortable
    assert producer.add(topic, 0) == {0: OK}
    assert producer.send(topic, b"a", partition=1).error_code == ErrorCode.transaction_abortable
    send(producer, topic, b"a")
    producer.end(commit=True)
    late = producer.send(topic, b"late")
    assert late.error_code == ErrorCode.transaction_abortable
    assert fetch(client, topic).last_stable_offset == 2


@pytest.mark.parametrize("version", [2])
def test_after_the_end_nothing_of_the_old_epoch_gets_in(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic()
    late = producer.zombie()
    send(producer, topic, b"a")
    producer.end(commit=True)
    refused = late.send(topic, b"late", sequence=1)
    assert refused.error_code == ErrorCode.invalid_producer_epoch
    send(producer, topic, b"b")
    assert late.send(topic, b"late", sequence=1).error_code == ErrorCode.invalid_producer_epoch
    producer.end(commit=True)
    assert fetch(client, topic).last_stable_offset == end_offset(client, topic) == 4


@pytest.mark.parametrize("version", [2])
def test_an_abort_of_nothing_moves_the_epoch_on(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    late, epoch = producer.zombie(), producer.epoch
    producer.end(commit=False)
    assert producer.epoch == epoch + 1
    late_send = late.send(make_topic(), b"late")
    assert late_send.error_code == ErrorCode.invalid_producer_epoch
    producer.end(commit=False)
    assert producer.epoch == epoch + 2


@pytest.mark.parametrize("version", [2])
def test_the_first_batch_of_a_transaction_has_the_sequence_zero(
    make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic()
    answer = producer.send(topic, b"b", sequence=1)
    assert answer.error_code == ErrorCode.out_of_order_sequence_number
    producer.end(commit=False)


@both_versions
def test_a_batch_outside_of_the_open_transaction_is_refused(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic()
    send(producer, topic, b"a")
    outside = batch(b"b", producer_id=producer.id, epoch=producer.epoch, sequence=1)
    answer = client.call("produce", 12, **produce_fields(topic, outside))
    refused = answer.responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.invalid_txn_state
    producer.end(commit=False)


# --- the end ---------------------------------------------------------------------------------


@both_versions
def test_there_is_nothing_to_commit(producer: Producer) -> None:
    assert producer.ask_to_end(commit=True).error_code == ErrorCode.invalid_txn_state


@pytest.mark.parametrize("version", [1])
def test_an_end_may_be_asked_for_twice(
    client: RawClient, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic()
    assert producer.ask_to_end(commit=False).error_code == ErrorCode.invalid_txn_state
    for commit in (True, False):
        send(producer, topic, b"a")
        producer.end(commit=commit)
        assert producer.ask_to_end(commit=commit).error_code == OK
        assert producer.ask_to_end(commit=not commit).error_code == ErrorCode.invalid_txn_state


@pytest.mark.parametrize("version", [2])
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_may_be_asked_for_again_with_the_epoch_of_the_transaction(
    make_topic: MakeTopic, producer: Producer, commit: bool
) -> None:
    topic = make_topic()
    again = producer.zombie()
    send(producer, topic, b"a")
    producer.end(commit=commit)
    repeated = again.ask_to_end(commit=commit)
    assert (repeated.error_code, repeated.producer_epoch) == (OK, producer.epoch)
    other = again.ask_to_end(commit=not commit)
    assert other.error_code == ErrorCode.invalid_txn_state
    send(producer, topic, b"b")
    assert again.ask_to_end(commit=commit).error_code == ErrorCode.producer_fenced
    producer.end(commit=False)


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [-1, 0, 15 * 60_000 + 1, 2**31 - 1])
@pytest.mark.parametrize("version", [2])
def test_a_timeout_that_is_not_allowed(producer: Producer, timeout_ms: int) -> None:
    answer = producer.ask_for_id(transaction_timeout=timeout_ms)
    assert answer.error_code == ErrorCode.invalid_transaction_timeout


@both_versions
def test_half_a_producer_and_an_empty_name_are_invalid(producer: Producer) -> None:
    for changes in ({"producer_id": 5}, {"producer_epoch": 5}, {"transactional_id": ""}):
        assert producer.ask_for_id(**changes).error_code == ErrorCode.invalid_request


@both_versions
def test_a_wrong_name_or_producer_id_is_refused_by_every_request(
    make_topic: MakeTopic, producer: Producer
) -> None:
    topic, wrong = make_topic(), ErrorCode.invalid_producer_id_mapping
    other = producer.zombie()
    other.id += 10**9
    stranger = producer.zombie()
    stranger.transactional_id += "-other"
    for one in (other, stranger):
        assert one.add(topic) == {0: wrong}
        assert one.add_offsets("g") == wrong
        assert one.ask_to_end(commit=True).error_code == wrong
        for version in (10, 11, 12):
            assert one.send(topic, b"a", version=version).error_code == wrong
    nobody = producer.zombie()
    nobody.transactional_id = ""
    assert nobody.add(topic) == {0: ErrorCode.invalid_request}
    assert nobody.ask_to_end(commit=True).error_code == ErrorCode.invalid_request
    assert nobody.send(topic, b"a").error_code == ErrorCode.invalid_request


@both_versions
def test_partitions_are_added_all_or_not_at_all(
    client: RawClient, make_topic: MakeTopic, unknown_topic: Topic, producer: Producer
) -> None:
    topic = make_topic()
    unknown, skipped = ErrorCode.unknown_topic_or_partition, ErrorCode.operation_not_attempted
    assert producer.add(unknown_topic) == {0: unknown}
    assert producer.add(topic, 0, 7) == {0: skipped, 7: unknown}
    assert producer.add(Topic("__consumer_offsets", None)) == {
        0: ErrorCode.topic_authorization_failed
    }
    found = describe_transaction(client, producer.transactional_id)
    assert found.transaction_state == "Empty"


@pytest.mark.parametrize("request_version", [4, 5])
@pytest.mark.parametrize("version", [2])
def test_brokers_ask_whether_a_partition_is_part_of_a_transaction(
    client: RawClient, make_topic: MakeTopic, producer: Producer, request_version: int
) -> None:
    topic = make_topic()

    def ask(*, verify_only: bool, **changes: Any) -> list[ErrorCode]:
        wanted = {
            "transactional_id": producer.transactional_id,
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "verify_only": verify_only,
            "topics": [{"name": topic.name, "partitions": [0]}],
        }
        answer = add_many(client, request_version, [wanted | changes])
        assert answer.error_code == OK
        return [
            one.partition_error_code
            for each in answer.results_by_transaction
            for named in each.topic_results
            for one in named.results_by_partition
        ]

    assert ask(verify_only=True) == [ErrorCode.transaction_abortable]
    assert ask(verify_only=True, transactional_id="") == [ErrorCode.invalid_request]
    assert ask(verify_only=True, producer_epoch=99) == [ErrorCode.producer_fenced]
    assert ask(verify_only=False) == [OK]
    assert ask(verify_only=True) == [OK]
    producer.end(commit=False)


# --- markers by hand -------------------------------------------------------------------------


def write_marker(producer: Producer, topic: Topic, *, commit: bool, **changes: Any) -> ErrorCode:
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": commit,
        "topics": [{"name": topic.name, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
        "transaction_version": 0,
    }
    answer = producer.client.call("write_txn_markers", 2, markers=[marker | changes])
    code: ErrorCode = answer.markers[0].topics[0].partitions[0].error_code
    return code


@both_versions
def test_an_operator_ends_a_transaction_in_one_partition(
    client: RawClient, make_topic: MakeTopic, unknown_topic: Topic, producer: Producer
) -> None:
    topic = make_topic()
    producer.begin()
    send(producer, topic, b"a")
    old, unknown = ErrorCode.invalid_producer_epoch, ErrorCode.unknown_topic_or_partition
    assert write_marker(producer, unknown_topic, commit=False) == unknown
    assert write_marker(producer, topic, commit=False, producer_epoch=producer.epoch - 1) == old
    assert write_marker(producer, topic, commit=False, transaction_version=2) == old
    assert fetch(client, topic).last_stable_offset == 0
    assert write_marker(producer, topic, commit=False) == OK
    assert fetch(client, topic).last_stable_offset == 2
    fenced = ErrorCode.transaction_coordinator_fenced
    assert write_marker(producer, topic, commit=False, coordinator_epoch=-5) == fenced
    producer.end(commit=True)


def test_producers_are_described(client: RawClient, make_topic: MakeTopic, topic: str) -> None:
    target = make_topic()
    producer = Producer(client, topic)
    producer.begin()
    send(producer, target, b"a", b"b")

    def described() -> Any:
        answer = client.call(
            "describe_producers", 0, topics=[{"name": target.name, "partition_indexes": [0, 7]}]
        )
        found, missing = answer.topics[0].partitions
        assert missing.error_code == ErrorCode.unknown_topic_or_partition
        (one,) = found.active_producers
        return one

    one = described()
    assert (one.producer_id, one.producer_epoch) == (producer.id, producer.epoch)
    assert (one.last_sequence, one.coordinator_epoch) == (1, -1)
    assert one.current_txn_start_offset == 0
    epoch = producer.epoch
    producer.end(commit=True)
    one = described()
    assert (one.producer_epoch, one.last_sequence) == (epoch + 1, -1)
    assert (one.coordinator_epoch, one.current_txn_start_offset) == (0, -1)
