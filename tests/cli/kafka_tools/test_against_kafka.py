"""The lecture's commands beside Kafka's own tools, on the same real Kafka: the same output."""

import json
import time

import pytest

from tools.kafka import run_tool

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"

NOW = time.time_ns() // 1_000_000  # retention soon deletes what is older than a week
RECORDS = [
    {"key": "k", "value": "v", "timestamp": NOW, "headers": {"a": "1", "b": "2"}},
    {"key": None, "value": "", "timestamp": NOW + 1},
    {"key": "", "value": None, "timestamp": NOW + 2, "headers": {"n": None}},
    {"key": "café", "value": "\x1b[1m", "timestamp": NOW + 3},
]
LINES = "a:1,b:2\tk\tv\n\t\t\na:1,b\tk\tv\nh:NULL\tNULL\tNULL\nx:y\tno value\nplain\n"


@pytest.fixture
def at_kafka(kafka_server):
    return ["--bootstrap-server", kafka_server.bootstrap_servers]


@pytest.fixture
def describe_and_list(strom, at_kafka):
    def both(*arguments):
        theirs = run_tool(TOPICS, *at_kafka, *arguments)
        ours = strom("kafka-topics", *at_kafka, *arguments)
        return ours, theirs

    return both


def test_topics_are_described_and_listed_alike(strom, at_kafka, describe_and_list, topic):
    settings = ["--config", "retention.ms=1000", "--config", "cleanup.policy=compact"]
    strom("kafka-topics", *at_kafka, "--create", "--topic", topic, "--partitions", "3", *settings)
    ours, theirs = describe_and_list("--describe", "--topic", topic)
    assert ours.stdout == theirs.stdout
    assert ours.stdout.count("\n") == 4
    ours, theirs = describe_and_list("--list")
    assert ours.stdout == theirs.stdout
    assert topic in ours.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--create", "--topic", "taken"],
        ["--create", "--topic", "bad name"],
        ["--create", "--topic", "fine", "--config", "no.such.setting=1"],
        ["--create", "--topic", "fine", "--replication-factor", "3"],
        ["--describe", "--topic", "not-there"],
        ["--alter", "--topic", "taken", "--partitions", "1"],
    ],
)
def test_failures_are_reported_alike(strom, at_kafka, describe_and_list, arguments):
    strom("kafka-topics", *at_kafka, "--create", "--topic", "taken", "--if-not-exists")
    ours, theirs = describe_and_list(*arguments)
    assert ours.exit_code == theirs.returncode == 1
    # Kafka prints its errors to stdout, and a log line after them.
    assert ours.stderr == theirs.stdout.partition("\n")[0] + "\n"


def test_creating_is_reported_alike(describe_and_list, strom, at_kafka, topic):
    name = f"{topic}.x_y"
    theirs = run_tool(TOPICS, *at_kafka, "--create", "--topic", name)
    run_tool(TOPICS, *at_kafka, "--delete", "--topic", name)
    ours = strom("kafka-topics", *at_kafka, "--create", "--topic", name)
    assert ours.stdout == theirs.stdout


@pytest.mark.parametrize(
    "properties",
    [
        [],
        ["print.timestamp", "print.partition", "print.offset", "print.headers", "print.key"],
        ["print.key", "key.separator= = ", "line.separator=;", "null.literal=nil"],
        ["print.key", "print.value=false", "print.headers", "headers.separator=|"],
    ],
)
def test_records_are_printed_alike(strom, at_kafka, topic, properties):
    servers = at_kafka[1]
    lines = "".join(f"{json.dumps(record)}\n" for record in RECORDS).encode()
    assert strom("produce", topic, "-f", "json", "-b", servers, stdin=lines).exit_code == 0
    flags = []
    for text in properties:
        flags += ["--formatter-property", text if "=" in text else f"{text}=true"]
    arguments = [*at_kafka, "--topic", topic, "--partition", "0", "--offset", "earliest"]
    arguments += ["--max-messages", "4", *flags]
    theirs = run_tool(CONSUMER, *arguments)
    ours = strom("kafka-console-consumer", *arguments)
    assert ours.stdout == theirs.stdout
    assert ours.stderr == theirs.stderr == "Processed a total of 4 messages\n"


def test_lines_are_read_alike(strom, at_kafka, topic):
    properties = ["parse.key", "parse.headers", "ignore.error"]
    flags = [part for name in properties for part in ("--reader-property", f"{name}=true")]
    flags += ["--reader-property", "null.marker=NULL"]
    run_tool(PRODUCER, *at_kafka, "--topic", f"{topic}-theirs", *flags, stdin=LINES)
    strom(
        "kafka-console-producer", *at_kafka, "--topic", f"{topic}-ours", *flags,
        stdin=LINES.encode(),
    )  # fmt: skip

    def stored(name):
        output = strom("consume", name, "-o", ":end", "--json", "-b", at_kafka[1]).stdout
        records = [json.loads(line) for line in output.splitlines()]
        return [{**record, "topic": "", "timestamp": 0} for record in records]

    assert len(stored(f"{topic}-ours")) == 6
    assert stored(f"{topic}-ours") == stored(f"{topic}-theirs")


@pytest.mark.parametrize(
    "command", [["consume", "{topic}"], ["kafka-console-consumer", "--topic", "{topic}"]]
)
def test_a_group_goes_on_where_it_stopped(strom, at_kafka, topic, command):
    strom("produce", topic, *at_kafka, stdin=b"0\n1\n2\n3\n4\n")
    arguments = [part.format(topic=topic) for part in command]
    arguments += [*at_kafka, "--group", topic, "--from-beginning", "--max-messages"]
    assert strom(*arguments, "2").stdout == "0\n1\n"
    # What was fetched but not printed is not committed.
    assert strom(*arguments, "3").stdout == "2\n3\n4\n"
