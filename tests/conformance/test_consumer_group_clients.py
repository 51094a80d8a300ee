"""Real consumers with `group.protocol=consumer`: each record to one of them, and none is lost."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.consumer_members import set_group_config
from tests.conformance.raw import RawClient
from tests.conformance.sharing_consumers import (
    GROUP_COMMAND,
    PARTITIONS,
    RECORDS,
    TIMEOUT_S,
    read,
    run_java,
    send,
    wait_for_shares,
)
from tests.conftest import Target

OpenConsumer = Callable[..., Consumer]


@pytest.fixture
def filled(target: Target, topic: str, client: RawClient) -> str:
    """A topic of four partitions with 200 records, and a group of its name with short intervals."""
    admin = AdminClient({"bootstrap.servers": target.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    set_group_config(client, topic, "consumer.heartbeat.interval.ms", "200")
    send(target, topic, range(RECORDS))
    return topic


@pytest.fixture
def open_consumer(target: Target, filled: str) -> Iterator[OpenConsumer]:
    """Opens librdkafka consumers of the topic in a group named like it."""
    opened: list[Consumer] = []

    def open_one(subscribe: str = filled, **config: Any) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": target.bootstrap_servers,
                "group.id": filled,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **config,
            }
        )
        opened.append(consumer)
        consumer.subscribe([subscribe])
        return consumer

    yield open_one
    for consumer in opened:
        consumer.close()


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_consumers_share_and_take_over(
    target: Target, filled: str, open_consumer: OpenConsumer, assignor: str
) -> None:
    config = {"group.remote.assignor": assignor}
    first = open_consumer(**config)
    assert sorted(read(first, count=RECORDS)[0]) == list(range(RECORDS))
    first.commit(asynchronous=False)
    second = open_consumer(**config)
    wait_for_shares(first, second)
    send(target, filled, range(RECORDS, 2 * RECORDS))
    mine, theirs = read(first, second, count=RECORDS)
    assert mine
    assert theirs
    assert sorted(mine + theirs) == list(range(RECORDS, 2 * RECORDS))
    first.commit(asynchronous=False)
    second.commit(asynchronous=False)
    first.close()
    wait_for_shares(second)
    send(target, filled, range(RECORDS))
    assert sorted(read(second, count=RECORDS)[0]) == list(range(RECORDS))


def test_a_group_goes_on_where_it_was(open_consumer: OpenConsumer) -> None:
    first = open_consumer()
    (got,) = read(first, count=50)
    first.commit(asynchronous=False)
    first.close()
    (rest,) = read(open_consumer(), count=RECORDS - 50)
    assert sorted(got + rest) == list(range(RECORDS))


def test_topics_are_found_by_a_pattern(open_consumer: OpenConsumer, filled: str) -> None:
    consumer = open_consumer(f"^{filled}$")
    assert sorted(read(consumer, count=RECORDS)[0]) == list(range(RECORDS))


def test_a_static_member_restarts(open_consumer: OpenConsumer) -> None:
    one = open_consumer(**{"group.instance.id": "one"})
    two = open_consumer(**{"group.instance.id": "two"})
    deadline = time.monotonic() + TIMEOUT_S
    while [len(consumer.assignment()) for consumer in (one, two)] != [2, 2]:
        assert time.monotonic() < deadline
        one.poll(0.05)
        two.poll(0.05)
    had = sorted(part.partition for part in one.assignment())
    one.close()
    back = open_consumer(**{"group.instance.id": "one"})
    deadline = time.monotonic() + TIMEOUT_S
    while not back.assignment():
        assert time.monotonic() < deadline
        back.poll(0.05)
        two.poll(0.05)
    assert sorted(part.partition for part in back.assignment()) == had


def test_a_group_of_clients_moves_to_the_new_protocol(
    target: Target, filled: str, open_consumer: OpenConsumer
) -> None:
    classic = {
        "group.protocol": "classic",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 200,
    }
    old = open_consumer(**classic)
    assert sorted(read(old, count=RECORDS)[0]) == list(range(RECORDS))
    old.commit(asynchronous=False)
    new = open_consumer()
    wait_for_shares(old, new)
    send(target, filled, range(RECORDS))
    mine, theirs = read(old, new, count=RECORDS)
    assert mine
    assert theirs
    assert sorted(mine + theirs) == list(range(RECORDS))
    old.commit(asynchronous=False)
    new.commit(asynchronous=False)
    new.close()
    wait_for_shares(old)
    send(target, filled, range(RECORDS))
    assert sorted(read(old, count=RECORDS)[0]) == list(range(RECORDS))


def test_admins_see_the_kind_of_a_group(
    target: Target, filled: str, open_consumer: OpenConsumer
) -> None:
    read(open_consumer(), count=RECORDS)
    admin = AdminClient({"bootstrap.servers": target.bootstrap_servers})
    listed = {one.group_id: one for one in admin.list_consumer_groups().result(TIMEOUT_S).valid}
    assert (listed[filled].type.name, listed[filled].state.name) == ("CONSUMER", "STABLE")
    described = admin.describe_consumer_groups([filled])[filled].result(TIMEOUT_S)
    assert described.type.name == "CONSUMER"
    (member,) = described.members
    assert len(member.assignment.topic_partitions) == PARTITIONS
    assert len(member.target_assignment.topic_partitions) == PARTITIONS


# --- the Java client -----------------------------------------------------------------------------

NEW_PROTOCOL = ("--command-property", "group.protocol=consumer")


@pytest.mark.oracle
@pytest.mark.slow
def test_javas_consumer_reads_in_a_group(target: Target, filled: str) -> None:
    once = ("--topic", filled, "--group", filled, "--from-beginning", "--timeout-ms", "8000")
    read = (*once, *NEW_PROTOCOL)
    first = run_java(target, "consumer.ConsoleConsumer", *read, "--max-messages", "80")
    rest = run_java(target, "consumer.ConsoleConsumer", *read, "--max-messages", str(RECORDS - 80))
    assert sorted(map(int, (first + rest).split())) == list(range(RECORDS))
    described = run_java(target, GROUP_COMMAND, "--describe", "--group", filled)
    rows = [line.split() for line in described.splitlines() if line.startswith(filled)]
    assert sorted(row[2:6] for row in rows) == [
        [str(partition), "50", "50", "0"] for partition in range(PARTITIONS)
    ]
    listed = run_java(target, GROUP_COMMAND, "--list", "--type", "consumer", "--state")
    assert [filled, "Consumer", "Empty"] in [line.split() for line in listed.splitlines()]


@pytest.mark.oracle
@pytest.mark.slow
def test_javas_tool_shows_members_and_targets(
    target: Target, filled: str, open_consumer: OpenConsumer
) -> None:
    read(open_consumer(), count=RECORDS)
    shown = run_java(
        target, GROUP_COMMAND, "--describe", "--group", filled, "--members", "--verbose"
    )
    (row,) = [line.split() for line in shown.splitlines() if line.startswith(filled)]
    assert row[4:] == ["4", "2", f"{filled}:0,1,2,3", "2", f"{filled}:0,1,2,3"]
    state = run_java(target, GROUP_COMMAND, "--describe", "--group", filled, "--state", "--verbose")
    (row,) = [line.split() for line in state.splitlines() if line.startswith(filled)]
    assert row[3:] == ["uniform", "Stable", "2", "2", "1"]
