"""Share groups through real clients: librdkafka's share consumer, and Kafka's own tools."""

import json
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from tests.conformance.batches import Record, batch
from tests.conformance.calls import Topic, produce
from tests.conformance.members import find_coordinator
from tests.conformance.raw import RawClient
from tests.conformance.sharers import set_group_configs
from tests.conftest import Target
from tools import kafka

MakeTopic = Callable[..., Topic]
MakeConsumer = Callable[..., ShareConsumer]
Run = Callable[..., str]


@pytest.fixture
def group(client: RawClient, topic: str) -> str:
    find_coordinator(client, topic)
    set_group_configs(client, topic, {"share.auto.offset.reset": "earliest"})
    return topic


@pytest.fixture
def make_consumer(target: Target, group: str) -> Iterator[MakeConsumer]:
    """Share consumers of librdkafka, closed when the test ends."""
    made: list[ShareConsumer] = []

    def make(**settings: str) -> ShareConsumer:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        made.append(
            ShareConsumer(
                {"bootstrap.servers": target.bootstrap_servers, "group.id": group, **given}
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


def fill(client: RawClient, topic: Topic, count: int, partitions: int = 1) -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    for index in range(partitions):
        produce(client, topic, batch(*map(Record, values[index::partitions])), partition=index)
    return values


def read(consumer: ShareConsumer, count: int, patience: int = 60) -> list[bytes]:
    values: list[bytes] = []
    for _ in range(patience):
        values += [one.value() for one in consumer.poll(0.5) if one.error() is None]
        if len(values) >= count:
            break
    return values


def test_librdkafka_reads_every_record_once(
    client: RawClient, make_consumer: MakeConsumer, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    values = fill(client, topic, 300, partitions=3)
    consumer = make_consumer()
    consumer.subscribe([topic.name])
    assert sorted(read(consumer, 300)) == sorted(values)
    assert not any(error for error in consumer.commit_sync().values())


def test_librdkafka_accepts_releases_and_rejects(
    client: RawClient, make_consumer: MakeConsumer, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fill(client, topic, 9)
    consumer = make_consumer(share_acknowledgement_mode="explicit")
    consumer.subscribe([topic.name])
    seen: dict[bytes, int] = {}
    for _ in range(60):
        for one in consumer.poll(0.5):
            seen[one.value()] = seen.get(one.value(), 0) + 1
            number = int(one.value())
            if number % 3 == 0:
                kind = AcknowledgeType.ACCEPT
            elif number % 3 == 1 and seen[one.value()] == 1:
                kind = AcknowledgeType.RELEASE
            else:
                kind = AcknowledgeType.REJECT
            consumer.acknowledge(one, kind)
        if sum(seen.values()) >= 12:
            break
    assert seen == {b"%d" % number: 2 if number % 3 == 1 else 1 for number in range(9)}


def test_two_consumers_share_one_partition(
    client: RawClient, make_consumer: MakeConsumer, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    one, other = make_consumer(max_poll_records="10"), make_consumer(max_poll_records="10")
    one.subscribe([topic.name])
    other.subscribe([topic.name])
    values: list[bytes] = []
    written = 0
    for _ in range(120):
        if written < 200:
            produce(client, topic, batch(*(b"%d" % n for n in range(written, written + 10))))
            written += 10
        for consumer in (one, other):
            values += [item.value() for item in consumer.poll(0.1)]
        if len(values) >= 200:
            break
    assert sorted(values) == sorted(b"%d" % number for number in range(200))


# --- Kafka's own tools -------------------------------------------------------------------------


@pytest.fixture
def run(target: Target) -> Run:
    """Runs a tool against the broker under test; gives what it prints."""

    def run_tool(tool: str, *arguments: str) -> str:
        address = ("--bootstrap-server", target.bootstrap_servers)
        try:
            done = kafka.run_tool(f"org.apache.kafka.tools.{tool}", *address, *arguments)
        except kafka.UnavailableError as reason:
            pytest.skip(f"no Kafka tools: {reason}")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run_tool


@pytest.mark.oracle
@pytest.mark.slow
def test_kafkas_tools_read_and_move_a_group(
    run: Run, client: RawClient, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(1)
    values = fill(client, topic, 100)
    options = ("--topic", topic.name, "--group", group)
    printed = run(
        "consumer.ConsoleShareConsumer", *options, "--max-messages", "100", "--timeout-ms", "30000"
    )
    assert sorted(printed.split()) == sorted(value.decode() for value in values)
    groups = "consumer.group.ShareGroupCommand"
    assert group in run(groups, "--list").split()
    *named, _, lag = run(groups, "--describe", "--group", group).split()[-5:]
    assert (named, lag) == ([group, topic.name, "0"], "0")
    run(groups, "--reset-offsets", *_named(group, topic), "--to-earliest", "--execute")
    row = run(groups, "--describe", "--group", group).split()
    assert row[-5:] == [group, topic.name, "0", "0", "100"]
    assert "Empty" in run(groups, "--describe", "--group", group, "--state")
    assert "Successful" in run(groups, "--delete-offsets", *_named(group, topic))
    assert "successful" in run(groups, "--delete", "--group", group)
    assert group not in run(groups, "--list").split()


def _named(group: str, topic: Topic) -> tuple[str, ...]:
    return ("--group", group, "--topic", topic.name)


@pytest.mark.oracle
@pytest.mark.slow
def test_kafkas_verifiable_share_consumer_gets_everything(
    run: Run, client: RawClient, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(2)
    fill(client, topic, 200, partitions=2)
    options = ("--topic", topic.name, "--group-id", group, "--max-messages", "200")
    printed = run("VerifiableShareConsumer", *options, "--acknowledgement-mode", "sync")
    said = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    acknowledged = [
        (one["partition"], offset)
        for line in said
        if line["name"] == "offsets_acknowledged"
        for one in line["partitions"]
        for offset in one["offsets"]
    ]
    assert sorted(acknowledged) == [(index, n) for index in (0, 1) for n in range(100)]
