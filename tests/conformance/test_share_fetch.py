"""ShareFetch and ShareAcknowledge: every record is with one member at a time, until it is dealt with."""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from tests.conformance.batches import Record, batch, read_values
from tests.conformance.calls import Topic, produce
from tests.conformance.members import find_coordinator
from tests.conformance.raw import RawClient
from tests.conformance.sharers import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    STRICTLY,
    Acknowledged,
    Acquired,
    Sharer,
    acquired,
    partitions_of,
    set_group_configs,
)
from tests.conftest import Target

OK = ErrorCode.none
MakeTopic = Callable[..., Topic]
MakeSharer = Callable[..., Sharer]


@pytest.fixture
def group(client: RawClient, topic: str) -> str:
    """A group that begins with what is there."""
    find_coordinator(client, topic)
    assert set_group_configs(client, topic, {"share.auto.offset.reset": "earliest"}) == OK
    return topic


@pytest.fixture
def shared(make_topic: MakeTopic) -> Topic:
    """The topic that the group reads."""
    return make_topic()


@pytest.fixture
def make_sharer(target: Target, group: str, shared: Topic) -> Iterator[MakeSharer]:
    made: list[Sharer] = []

    def make(*topics: Topic) -> Sharer:
        one = Sharer(target.bootstrap_servers, group)
        made.append(one)
        one.join(*(topics or (shared,)))
        return one

    yield make
    for one in made:
        one.client.socket.close()


def put(client: RawClient, topic: Topic, *sizes: int) -> None:
    """Produce batches of these numbers of records."""
    for size in sizes:
        answer = produce(client, topic, batch(*(b"%d" % number for number in range(size))))
        assert answer.error_code == OK


def nothing_for(sharer: Sharer, topic: Topic) -> bool:
    """Whether a fetch that waits a while finds nothing."""
    answer = sharer.fetch((topic, 0), max_wait=300)
    assert answer.error_code == OK
    return not any(one.acquired_records for one in partitions_of(answer))


def acknowledge(sharer: Sharer, topic: Topic, first: int, last: int, *kinds: int) -> ErrorCode:
    answer = sharer.acknowledge((topic, 0, Acknowledged(first, last, kinds)))
    assert answer.error_code == OK, answer
    (one,) = partitions_of(answer)
    code: ErrorCode = one.error_code
    return code


# --- acquiring ---------------------------------------------------------------------------------


def test_records_are_acquired_whole_with_their_bytes(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    put(client, shared, 3, 2)
    (one,) = partitions_of(_fetch_until(sharer, shared))
    assert acquired(one) == [Acquired(0, 4, 1)]
    assert read_values(one.records) == [b"0", b"1", b"2", b"0", b"1"]


def _fetch_until(sharer: Sharer, topic: Topic, **changes: Any) -> Any:
    deadline = time.monotonic() + 10
    while True:
        answer = sharer.fetch((topic, 0), max_wait=200, **changes)
        assert answer.error_code == OK, answer
        if any(one.acquired_records for one in partitions_of(answer)):
            return answer
        assert time.monotonic() < deadline


def test_a_record_is_with_one_member_only(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    one, other = make_sharer(), make_sharer()
    put(client, shared, 4)
    assert one.acquire(shared) == [Acquired(0, 3, 1)]
    assert nothing_for(other, shared)
    put(client, shared, 4)
    assert other.acquire(shared) == [Acquired(4, 7, 1)]


def test_the_lock_time_is_reported(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    answer = make_sharer().fetch((shared, 0))
    assert answer.acquisition_lock_timeout.total_seconds() == 30


def test_a_fetch_waits_for_records(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    sharer.fetch((shared, 0))
    waiting = sharer.begin_fetch(max_wait=20_000)
    time.sleep(0.2)
    put(client, shared, 2)
    (one,) = partitions_of(sharer.end_fetch(waiting))
    assert acquired(one) == [Acquired(0, 1, 1)]


def test_a_fetch_waits_for_what_another_gives_back(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    one, other = make_sharer(), make_sharer()
    put(client, shared, 2)
    one.acquire(shared)
    other.fetch((shared, 0))
    waiting = other.begin_fetch(max_wait=20_000)
    time.sleep(0.2)
    assert acknowledge(one, shared, 0, 1, RELEASE) == OK
    (found,) = partitions_of(other.end_fetch(waiting))
    assert acquired(found) == [Acquired(0, 1, 2)]


def test_whole_batches_may_be_more_than_asked_for(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    put(client, shared, 4, 4, 4)
    assert sharer.acquire(shared, max_records=5) == [Acquired(0, 7, 1)]
    assert sharer.acquire(shared, max_records=5) == [Acquired(8, 11, 1)]


def test_strictly_no_more_than_asked_for(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    put(client, shared, 4, 4)
    strictly = {"max_records": 3, "share_acquire_mode": STRICTLY}
    for expected in ([0, 1, 2], [3, 4, 5], [6, 7]):
        ranges = sharer.acquire(shared, **strictly)
        assert [at for one in ranges for at in range(one.first, one.last + 1)] == expected


def test_ranges_are_as_large_as_the_client_likes_them(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    put(client, shared, 2, 2, 2, 2)
    assert sharer.acquire(shared, batch_size=3) == [Acquired(0, 3, 1), Acquired(4, 7, 1)]


def test_only_so_many_records_are_in_flight(
    client: RawClient, make_sharer: MakeSharer, shared: Topic, group: str
) -> None:
    set_group_configs(client, group, {"share.partition.max.record.locks": "100"})
    sharer = make_sharer()
    put(client, shared, 60, 60, 60)
    assert sum(one.last - one.first + 1 for one in sharer.acquire(shared)) == 120
    assert nothing_for(sharer, shared)
    assert acknowledge(sharer, shared, 0, 59, ACCEPT) == OK
    assert sharer.acquire(shared) == [Acquired(120, 179, 1)]


def test_a_new_group_begins_with_what_comes(
    client: RawClient, make_sharer: MakeSharer, shared: Topic, group: str
) -> None:
    set_group_configs(client, group, {"share.auto.offset.reset": "latest"})
    put(client, shared, 3)
    sharer = make_sharer()
    assert nothing_for(sharer, shared)
    put(client, shared, 2)
    assert sharer.acquire(shared) == [Acquired(3, 4, 1)]


def test_a_new_group_begins_by_age(
    client: RawClient, make_sharer: MakeSharer, shared: Topic, group: str
) -> None:
    set_group_configs(client, group, {"share.auto.offset.reset": "by_duration:PT1H"})
    put(client, shared, 3)  # their time is long past
    produce(client, shared, batch(Record(b"new", timestamp_ms=int(time.time() * 1000))))
    assert make_sharer().acquire(shared) == [Acquired(3, 3, 1)]


def test_only_committed_records_if_the_group_wants_it(
    client: RawClient, target: Target, make_sharer: MakeSharer, shared: Topic, group: str
) -> None:
    set_group_configs(client, group, {"share.isolation.level": "read_committed"})
    producer = Producer(
        {"bootstrap.servers": target.bootstrap_servers, "transactional.id": shared.name}
    )
    producer.init_transactions(20)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(shared.name, end.__name__)
        assert producer.flush(20) == 0
        end(20)
    sharer = make_sharer()
    (one,) = partitions_of(_fetch_until(sharer, shared))
    offsets = {at for first, last, _ in acquired(one) for at in range(first, last + 1)}
    assert offsets - {3, 7} == {4, 5, 6}  # of the markers, Kafka lets the clients find out
    assert list(read_values(one.records)).count(b"commit_transaction") == 3


# --- acknowledging -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ACCEPT, REJECT, GAP])
def test_what_is_dealt_with_never_comes_again(
    client: RawClient, make_sharer: MakeSharer, shared: Topic, kind: int
) -> None:
    one, other = make_sharer(), make_sharer()
    put(client, shared, 3)
    one.acquire(shared)
    assert acknowledge(one, shared, 0, 2, kind) == OK
    assert nothing_for(other, shared)
    assert nothing_for(one, shared)


def test_what_is_released_goes_to_the_next(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    one, other = make_sharer(), make_sharer()
    put(client, shared, 3)
    one.acquire(shared)
    assert acknowledge(one, shared, 0, 2, RELEASE) == OK
    assert other.acquire(shared) == [Acquired(0, 2, 2)]


def test_each_record_can_go_its_own_way(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    put(client, shared, 6)
    sharer.acquire(shared)
    kinds = (ACCEPT, RELEASE, REJECT, RELEASE, GAP, RELEASE)
    assert acknowledge(sharer, shared, 0, 5, *kinds) == OK
    assert sharer.acquire(shared) == [Acquired(1, 1, 2), Acquired(3, 3, 2), Acquired(5, 5, 2)]


def test_acknowledgements_ride_on_a_fetch(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    put(client, shared, 2, 2)
    assert sharer.acquire(shared, max_records=1) == [Acquired(0, 1, 1)]
    said = {(shared, 0): [Acknowledged(0, 1, [ACCEPT])]}
    (one,) = partitions_of(sharer.fetch(max_records=1, acknowledge=said, max_wait=1000))
    assert (one.acknowledge_error_code, acquired(one)) == (OK, [Acquired(2, 3, 1)])


def test_a_fetch_reports_which_acknowledgements_were_wrong(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    one, other = make_sharer(), make_sharer()
    put(client, shared, 2)
    one.acquire(shared)
    other.fetch((shared, 0))
    said = {(shared, 0): [Acknowledged(0, 1, [ACCEPT])]}
    (found,) = partitions_of(other.fetch(acknowledge=said))
    assert found.acknowledge_error_code == ErrorCode.invalid_record_state
    assert found.error_code == OK


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        ([(5, 4, [ACCEPT])], ErrorCode.invalid_request),
        ([(4, 4, [])], ErrorCode.invalid_request),
        ([(4, 7, [ACCEPT, ACCEPT])], ErrorCode.invalid_request),
        ([(4, 4, [9])], ErrorCode.invalid_request),
        ([(4, 4, [-1])], ErrorCode.invalid_request),
        ([(100, 101, [ACCEPT])], ErrorCode.invalid_request),
        ([(4, 101, [ACCEPT])], ErrorCode.invalid_request),
        ([(4, 5, [ACCEPT]), (5, 6, [ACCEPT])], ErrorCode.invalid_record_state),
        ([(0, 3, [ACCEPT])], OK),
        ([(0, 5, [ACCEPT])], OK),
        ([(4, 7, [ACCEPT])], OK),
    ],
    ids=str,
)
def test_all_of_it_or_nothing_is_acknowledged(
    client: RawClient,
    make_sharer: MakeSharer,
    shared: Topic,
    batches: list[tuple[int, int, list[int]]],
    code: ErrorCode,
) -> None:
    sharer = make_sharer()
    put(client, shared, 4, 4)
    sharer.acquire(shared)
    assert acknowledge(sharer, shared, 0, 3, ACCEPT) == OK
    said = [(shared, 0, Acknowledged(*one)) for one in batches]
    (one,) = partitions_of(sharer.acknowledge(*said))
    assert one.error_code == code
    if code != OK:
        assert acknowledge(sharer, shared, 4, 7, ACCEPT) == OK


def test_only_who_has_a_record_can_acknowledge_it(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    one, other = make_sharer(), make_sharer()
    put(client, shared, 2)
    one.acquire(shared)
    other.fetch((shared, 0))
    assert acknowledge(other, shared, 0, 1, ACCEPT) == ErrorCode.invalid_record_state
    assert acknowledge(one, shared, 0, 1, ACCEPT) == OK


def test_what_was_given_back_cannot_be_acknowledged(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    put(client, shared, 2)
    sharer.acquire(shared)
    assert acknowledge(sharer, shared, 0, 1, RELEASE) == OK
    assert acknowledge(sharer, shared, 0, 1, ACCEPT) == ErrorCode.invalid_record_state


def test_unknown_partitions_cannot_be_acknowledged(
    make_sharer: MakeSharer, shared: Topic, unknown_topic: Topic
) -> None:
    sharer = make_sharer()
    sharer.fetch((shared, 0))
    said = Acknowledged(0, 0, [ACCEPT])
    (one,) = partitions_of(sharer.acknowledge((shared, 7, said)))
    assert one.error_code == ErrorCode.unknown_topic_or_partition
    nowhere = Topic(unknown_topic.name, uuid.uuid4())
    (one,) = partitions_of(sharer.acknowledge((nowhere, 0, said)))
    assert one.error_code == ErrorCode.unknown_topic_id


# --- time --------------------------------------------------------------------------------------


@pytest.fixture
def short_locks(client: RawClient, group: str) -> None:
    assert set_group_configs(client, group, {"share.record.lock.duration.ms": "1000"}) == OK


@pytest.mark.usefixtures("short_locks")
def test_a_lock_times_out(client: RawClient, make_sharer: MakeSharer, shared: Topic) -> None:
    one, other = make_sharer(), make_sharer()
    put(client, shared, 2)
    one.acquire(shared)
    assert other.acquire(shared) == [Acquired(0, 1, 2)]
    assert acknowledge(one, shared, 0, 1, ACCEPT) == ErrorCode.invalid_record_state


@pytest.mark.usefixtures("short_locks")
def test_a_lock_can_be_renewed(client: RawClient, make_sharer: MakeSharer, shared: Topic) -> None:
    sharer = make_sharer()
    put(client, shared, 2)
    sharer.acquire(shared)
    for _ in range(4):
        time.sleep(0.5)
        assert acknowledge(sharer, shared, 0, 1, RENEW) == OK
    assert acknowledge(sharer, shared, 0, 1, ACCEPT) == OK


@pytest.mark.parametrize(("version", "flag"), [(1, False), (2, False)])
def test_to_renew_has_to_be_announced(
    client: RawClient, make_sharer: MakeSharer, shared: Topic, version: int, flag: bool
) -> None:
    sharer = make_sharer()
    put(client, shared, 1)
    sharer.acquire(shared)
    said = (shared, 0, Acknowledged(0, 0, [RENEW]))
    (one,) = partitions_of(sharer.acknowledge(said, version=version, is_renew_ack=flag))
    assert one.error_code == ErrorCode.invalid_request


def test_a_group_may_forbid_to_renew(
    client: RawClient, make_sharer: MakeSharer, shared: Topic, group: str
) -> None:
    set_group_configs(client, group, {"share.renew.acknowledge.enable": "false"})
    sharer = make_sharer()
    put(client, shared, 2)
    sharer.acquire(shared)
    assert acknowledge(sharer, shared, 0, 0, RENEW) == ErrorCode.invalid_record_state
    assert acknowledge(sharer, shared, 0, 1, ACCEPT) == OK


def test_to_renew_while_fetching_is_refused(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    put(client, shared, 1)
    sharer.acquire(shared)
    said = {(shared, 0): [Acknowledged(0, 0, [RENEW])]}
    answer = sharer.fetch(acknowledge=said, is_renew_ack=True)
    assert answer.error_code == ErrorCode.invalid_request
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    (one,) = partitions_of(sharer.fetch(acknowledge=said, is_renew_ack=True, **limits))
    assert (one.acknowledge_error_code, acquired(one)) == (OK, [])


def test_a_record_is_given_up_after_so_many_deliveries(
    client: RawClient, make_sharer: MakeSharer, shared: Topic, group: str
) -> None:
    set_group_configs(client, group, {"share.delivery.count.limit": "2"})
    sharer = make_sharer()
    put(client, shared, 1)
    for delivery in (1, 2):
        assert sharer.acquire(shared) == [Acquired(0, 0, delivery)]
        assert acknowledge(sharer, shared, 0, 0, RELEASE) == OK
    put(client, shared, 1)
    assert sharer.acquire(shared) == [Acquired(1, 1, 1)]


def test_what_failed_often_comes_in_small_portions(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    put(client, shared, 8)
    for _ in range(3):
        (one,) = sharer.acquire(shared)
        assert (one.first, one.last) == (0, 7)
        assert acknowledge(sharer, shared, 0, 7, RELEASE) == OK
    (one,) = sharer.acquire(shared)
    assert one == Acquired(0, 3, 4)
    assert acknowledge(sharer, shared, 0, 3, RELEASE) == OK
    (one,) = sharer.acquire(shared)
    assert one == Acquired(0, 0, 5)


# --- sessions ----------------------------------------------------------------------------------


def test_sessions_go_by_epochs(client: RawClient, make_sharer: MakeSharer, shared: Topic) -> None:
    sharer = make_sharer()
    assert sharer.fetch((shared, 0), share_session_epoch=3).error_code == (
        ErrorCode.share_session_not_found
    )
    assert sharer.fetch((shared, 0), share_session_epoch=-1).error_code == (
        ErrorCode.share_session_not_found
    )
    assert sharer.fetch((shared, 0)).error_code == OK
    assert sharer.fetch(share_session_epoch=7).error_code == ErrorCode.invalid_share_session_epoch
    assert sharer.fetch().error_code == OK


def test_a_session_cannot_begin_with_acknowledgements(
    make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    said = {(shared, 0): [Acknowledged(0, 0, [ACCEPT])]}
    assert sharer.fetch(acknowledge=said).error_code == ErrorCode.invalid_request
    said_so = (shared, 0, Acknowledged(0, 0, [ACCEPT]))
    answer = sharer.acknowledge(said_so, share_session_epoch=0)
    assert answer.error_code == ErrorCode.invalid_share_session_epoch
    answer = sharer.acknowledge(said_so, share_session_epoch=5)
    assert answer.error_code == ErrorCode.share_session_not_found


@pytest.mark.parametrize(
    "fields", [{"group_id": None}, {"member_id": None}, {"member_id": ""}], ids=repr
)
def test_a_fetch_needs_a_member_id(
    make_sharer: MakeSharer, shared: Topic, fields: dict[str, Any]
) -> None:
    answer = make_sharer().fetch((shared, 0), **fields)
    assert answer.error_code == ErrorCode.invalid_request


@pytest.mark.parametrize("by", ["fetch", "acknowledge"])
def test_the_end_of_a_session_gives_records_back(
    client: RawClient, make_sharer: MakeSharer, shared: Topic, by: str
) -> None:
    one, other = make_sharer(), make_sharer()
    put(client, shared, 4)
    one.acquire(shared)
    said = Acknowledged(0, 1, [ACCEPT])
    if by == "fetch":
        answer = one.fetch(acknowledge={(shared, 0): [said]}, share_session_epoch=-1)
    else:
        answer = one.acknowledge((shared, 0, said), share_session_epoch=-1)
    assert answer.error_code == OK
    assert other.acquire(shared) == [Acquired(2, 3, 2)]
    assert one.fetch(share_session_epoch=2).error_code == ErrorCode.share_session_not_found


def test_the_end_of_a_connection_gives_records_back(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    one, other = make_sharer(), make_sharer()
    put(client, shared, 4)
    one.acquire(shared)
    one.client.socket.close()
    assert other.acquire(shared) == [Acquired(0, 3, 2)]


def test_an_abandoned_fetch_takes_nothing_from_others(
    client: RawClient, target: Target, make_sharer: MakeSharer, shared: Topic
) -> None:
    one, other = make_sharer(), make_sharer()
    one.fetch((shared, 0))
    one.begin_fetch(max_wait=20_000)
    time.sleep(0.2)
    one.client.socket.close()
    time.sleep(0.2)
    put(client, shared, 2)
    ((first, last, deliveries),) = other.acquire(shared)
    assert (first, last) == (0, 1)
    # Kafka may have acquired them for the one that is gone, and given them back at once.
    assert deliveries == 1 or target.name == "kafka"


def test_a_new_session_keeps_what_the_member_has(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    put(client, shared, 2)
    sharer.acquire(shared)
    sharer.session_epoch = 0
    assert nothing_for(sharer, shared)
    assert acknowledge(sharer, shared, 0, 1, ACCEPT) == OK


def test_a_forgotten_partition_is_not_fetched_from(
    client: RawClient, make_sharer: MakeSharer, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    sharer = make_sharer(topic)
    sharer.fetch((topic, 0), (topic, 1))
    forgotten = [{"topic_id": topic.id, "partitions": [0]}]
    sharer.fetch(forgotten_topics_data=forgotten)
    for index in (0, 1):
        produce(client, topic, batch(b"x"), partition=index)
    time.sleep(0.2)
    (one,) = partitions_of(sharer.fetch(max_wait=2000))
    assert one.partition_index == 1


def test_an_unknown_partition_is_reported_and_the_others_go_on(
    client: RawClient, make_sharer: MakeSharer, shared: Topic
) -> None:
    sharer = make_sharer()
    answer = sharer.fetch((shared, 0), (shared, 9))
    codes = {one.partition_index: one.error_code for one in partitions_of(answer)}
    assert codes[9] == ErrorCode.unknown_topic_or_partition
    assert codes.get(0, OK) == OK


@pytest.mark.parametrize("version", [1, 2])
def test_every_version_works(
    client: RawClient, make_sharer: MakeSharer, shared: Topic, version: int
) -> None:
    sharer = make_sharer()
    put(client, shared, 2)
    assert sharer.acquire(shared, version=version) == [Acquired(0, 1, 1)]
    said = (shared, 0, Acknowledged(0, 1, [ACCEPT]))
    (one,) = partitions_of(sharer.acknowledge(said, version=version))
    assert one.error_code == OK
