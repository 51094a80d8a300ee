"""`strom kafka-consumer-groups`: on strom, and beside Kafka's own tool with the same output."""

import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tools.kafka import run_tool

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TIMEOUT_S = 30


@pytest.fixture
def address(target):
    return target.bootstrap_servers


@pytest.fixture
def clicks(address, topic):
    """A topic of two partitions with five records each."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": address})
    for number in range(10):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(TIMEOUT_S) == 0
    return topic


@pytest.fixture
def reader(address, clicks):
    """A member of a group named like the topic, which has read everything."""
    yield from reading(address, clicks)


@pytest.fixture
def new_reader(address, clicks):
    """The same, in a consumer group of the new protocol."""
    yield from reading(address, clicks, **{"group.protocol": "consumer"})


def reading(address, clicks, **more):
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": clicks,
            "client.id": "me",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **more,
        }
    )
    consumer.subscribe([clicks])
    read, deadline = 0, time.monotonic() + TIMEOUT_S
    while read < 10:
        assert time.monotonic() < deadline
        read += len(consumer.consume(10, 0.2))
    consumer.commit(asynchronous=False)
    yield consumer
    consumer.close()


@pytest.fixture
def call(strom, address):
    return lambda *arguments: strom(
        "kafka-consumer-groups", "--bootstrap-server", address, *arguments
    )


@pytest.fixture
def like_kafka(call, address):
    """Calls strom and Kafka's own tool, and sees that they print the same."""

    def both(*arguments):
        theirs = run_tool(TOOL, "--bootstrap-server", address, *arguments).stdout
        ours = call(*arguments).stdout
        if {"--list", "--reset-offsets"} & set(arguments):  # Kafka prints these in no order
            assert sorted(ours.splitlines()) == sorted(theirs.splitlines())
        else:
            assert ours == theirs
        return ours

    return both


def rows(printed, name):
    return [line.split()[1:] for line in printed.splitlines() if line.startswith(f"{name} ")]


def test_a_group_at_work(call, reader, clicks):
    (member,) = rows(call("--describe", "--group", clicks, "--members").stdout, clicks)
    assert member[1:] == ["/127.0.0.1", "me", "2"]
    described = call("--describe", "--group", clicks)
    assert rows(described.stdout, clicks) == [
        [clicks, str(number), "5", "5", "0", member[0], "/127.0.0.1", "me"] for number in range(2)
    ]
    assert described.stderr == ""
    assert clicks in call("--list").stdout.split()
    state = call("--describe", "--group", clicks, "--state").stdout
    assert rows(state, clicks)[0][-3:] == ["range", "Stable", "1"]


def test_a_group_with_members_is_left_alone(call, reader, clicks):
    deleted = call("--delete", "--group", clicks)
    assert deleted.exit_code == 1
    assert "could not be deleted" in deleted.stdout
    reset = call("--reset-offsets", "--group", clicks, "--all-topics", "--to-earliest", "--execute")
    assert "is inactive, but the current state is Stable" in reset.stdout
    assert rows(call("--describe", "--group", clicks).stdout, clicks)[0][2] == "5"


def test_a_group_is_moved_and_deleted(call, reader, clicks):
    reader.close()
    described = call("--describe", "--group", clicks)
    assert described.stderr == f"\nConsumer group '{clicks}' has no active members.\n"
    reset = ("--reset-offsets", "--group", clicks)
    shown = call(*reset, "--topic", f"{clicks}:1", "--to-offset", "3")
    assert shown.stderr.startswith("WARN: No action will be performed")
    assert rows(shown.stdout, clicks) == [[clicks, "1", "3"]]
    assert rows(call("--describe", "--group", clicks).stdout, clicks)[1][2] == "5"
    call(*reset, "--topic", f"{clicks}:1", "--to-offset", "3", "--execute")
    moved = call(*reset, "--all-topics", "--shift-by", "-2", "--execute")
    assert rows(moved.stdout, clicks) == [[clicks, "0", "3"], [clicks, "1", "1"]]
    described = rows(call("--describe", "--group", clicks).stdout, clicks)
    assert [row[1:5] for row in described] == [["0", "3", "5", "2"], ["1", "1", "5", "4"]]
    deleted = call("--delete", "--group", clicks)
    assert deleted.stdout == (
        f"Deletion of requested consumer groups ('{clicks}') was successful.\n"
    )
    assert clicks not in call("--list").stdout.split()


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        (["--to-earliest"], ["0", "0"]),
        (["--to-latest"], ["5", "5"]),
        (["--to-current"], ["5", "5"]),
        (["--to-offset", "99"], ["5", "5"]),
        (["--by-duration", "PT1H"], ["0", "0"]),
        (["--to-datetime", "2099-01-01T00:00:00.000"], ["5", "5"]),
        (["--to-datetime", "2001-01-01T00:00:00.000"], ["0", "0"]),
    ],
    ids=str,
)
def test_the_ways_to_say_where_to_go_on(call, clicks, flags, offsets):
    group = f"{clicks}-new"
    moved = call("--reset-offsets", "--group", group, "--topic", clicks, *flags, "--execute")
    assert [row[2] for row in rows(moved.stdout, group)] == offsets
    described = call("--describe", "--group", group)
    assert [row[2] for row in rows(described.stdout, group)] == offsets


def test_a_plan_is_exported_and_read_back(call, clicks, tmp_path):
    reset = ("--reset-offsets", "--group", f"{clicks}-new")
    exported = call(*reset, "--topic", clicks, "--to-latest", "--export", "--dry-run")
    assert exported.stdout == f'"{clicks}",0,5\n"{clicks}",1,5\n\n'
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{clicks},0,2\n{clicks},1,4\n")
    moved = call(*reset, "--from-file", str(plan), "--execute")
    assert [row[2] for row in rows(moved.stdout, f"{clicks}-new")] == ["2", "4"]


def test_a_group_that_is_not_there(call, topic):
    result = call("--describe", "--group", topic)
    assert result.exit_code == 1
    assert f"Group {topic} not found." in result.stdout
    result = call("--delete", "--group", topic)
    assert result.exit_code == 1
    assert "GroupIdNotFoundException" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--list", "--describe"],
        ["--describe"],
        ["--delete"],
        ["--reset-offsets", "--group", "g"],
        ["--reset-offsets", "--group", "g", "--to-latest"],
        ["--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--to-earliest"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_a_wrong_call(strom, arguments):
    assert strom("kafka-consumer-groups", *arguments).exit_code == 2


@pytest.mark.oracle
@pytest.mark.slow
def test_everything_is_printed_as_kafka_prints_it(like_kafka, reader, clicks):
    group = ("--group", clicks)
    for arguments in (
        ["--list", "--state", "Stable"],
        ["--list", "--type"],
        ["--describe", *group],
        ["--describe", *group, "--verbose"],
        ["--describe", *group, "--members"],
        ["--describe", *group, "--members", "--verbose"],
        ["--describe", *group, "--state"],
        ["--delete", *group],
    ):
        assert like_kafka(*arguments)
    reader.close()
    reset = ("--reset-offsets", *group)
    for arguments in (
        ["--describe", *group],
        ["--describe", *group, "--members"],
        ["--describe", *group, "--state"],
        ["--describe", "--group", f"{clicks}-none"],
        [*reset, "--all-topics", "--to-earliest", "--dry-run"],
        [*reset, "--topic", f"{clicks}:1", "--to-offset", "3", "--execute"],
        [*reset, "--all-topics", "--to-current", "--export", "--dry-run"],
        ["--delete", "--group", f"{clicks}-none"],
    ):
        assert like_kafka(*arguments)


@pytest.mark.oracle
@pytest.mark.slow
def test_a_consumer_group_is_printed_as_kafka_prints_it(like_kafka, new_reader, clicks):
    group = ("--group", clicks)
    for arguments in (
        ["--list", "--state", "Stable", "--type", "consumer"],
        ["--describe", *group],
        ["--describe", *group, "--members"],
        ["--describe", *group, "--members", "--verbose"],
        ["--describe", *group, "--state"],
        ["--describe", *group, "--state", "--verbose"],
        ["--delete", *group],
        ["--delete-offsets", *group, "--topic", clicks],
    ):
        assert like_kafka(*arguments)
    new_reader.close()
    for arguments in (
        ["--describe", *group, "--members", "--verbose"],
        ["--describe", *group, "--state", "--verbose"],
        ["--delete-offsets", *group, "--topic", f"{clicks}:0"],
        ["--delete-offsets", *group, "--topic", f"{clicks}-none"],
        ["--delete-offsets", "--group", f"{clicks}-none", "--topic", f"{clicks}:0"],
        ["--describe", *group],
    ):
        assert like_kafka(*arguments)


def test_offsets_of_a_group_are_deleted(call, reader, clicks):
    refused = call("--delete-offsets", "--group", clicks, "--topic", clicks)
    assert refused.exit_code == 1
    assert "GroupSubscribedToTopicException" in refused.stdout
    reader.close()
    done = call("--delete-offsets", "--group", clicks, "--topic", f"{clicks}:1")
    assert rows(done.stdout, clicks) == [["1", "Successful"]]
    left = rows(call("--describe", "--group", clicks).stdout, clicks)
    assert [row[1] for row in left] == ["0"]


@pytest.mark.parametrize(("pattern", "code"), [("a.*", 0), ("(a", 1)])
def test_a_pattern_is_checked_without_a_broker(strom, pattern, code):
    result = strom("kafka-consumer-groups", "--validate-regex", pattern)
    assert result.stdout.startswith(f"The regular expression `{pattern}` is ")
    assert ("invalid" in result.stdout) == bool(code)
    assert result.exit_code == code
