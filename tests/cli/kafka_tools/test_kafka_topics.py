"""`strom kafka-topics`."""

import re

import pytest

from strom.cli.kafka_tools.topics import topic_pattern


@pytest.fixture
def kafka_topics(strom_at_broker):
    return lambda *arguments: strom_at_broker("kafka-topics", *arguments)


def test_the_lectures_session(kafka_topics, topic):
    zookeeper = ["--zookeeper", "localhost:2181"]
    created = kafka_topics(
        "--create", *zookeeper, "--replication-factor", "1", "--partitions", "1", "--topic", topic
    )
    assert created.exit_code == 0
    assert created.stdout == f"Created topic {topic}.\n"
    assert created.stderr.startswith("Note: Kafka needs no ZooKeeper any more.")
    assert created.stderr.count("\n") == 1
    assert topic in kafka_topics(*zookeeper, "--list").stdout.splitlines()
    assert kafka_topics(*zookeeper, "--topic", topic, "--describe").exit_code == 0
    deleted = kafka_topics(*zookeeper, "--topic", topic, "--delete")
    assert (deleted.exit_code, deleted.stdout) == (0, "")
    assert topic not in kafka_topics("--list").stdout.splitlines()


def test_a_description_has_kafkas_lines(kafka_topics, topic):
    settings = ["--config", "retention.ms=1000", "--config", "cleanup.policy=compact"]
    kafka_topics("--create", "--topic", topic, "--partitions", "2", *settings)
    lines = kafka_topics("--describe", "--topic", topic).stdout.splitlines()
    assert re.fullmatch(
        f"Topic: {topic}\tTopicId: [A-Za-z0-9_-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1\t"
        r"Configs: \S+",
        lines[0],
    )
    configs = lines[0].rpartition("Configs: ")[2].split(",")
    assert {"cleanup.policy=compact", "retention.ms=1000"} <= set(configs)
    assert lines[1:] == [
        f"\tTopic: {topic}\tPartition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: "
        "\tLastKnownElr: "
        for number in range(2)
    ]


def test_creating_twice(kafka_topics, topic):
    kafka_topics("--create", "--topic", topic)
    again = kafka_topics("--create", "--topic", topic)
    assert again.exit_code == 1
    assert (
        again.stderr == f"Error while executing topic command : Topic '{topic}' already exists.\n"
    )
    allowed = kafka_topics("--create", "--topic", topic, "--if-not-exists")
    assert (allowed.exit_code, allowed.stdout, allowed.stderr) == (0, "", "")


def test_names_that_could_collide_are_warned_of(kafka_topics, topic):
    result = kafka_topics("--create", "--topic", f"{topic}.a")
    assert result.stdout.startswith("WARNING: Due to limitations in metric names")
    assert result.stdout.endswith(f"Created topic {topic}.a.\n")


@pytest.mark.parametrize("action", ["--describe", "--delete", "--alter"])
def test_a_missing_topic(kafka_topics, topic, action):
    result = kafka_topics(action, "--topic", topic)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error while executing topic command : Topic '{topic}' does not exist as expected\n"
    )
    allowed = kafka_topics(action, "--topic", topic, "--if-exists")
    assert (allowed.exit_code, allowed.stdout, allowed.stderr) == (0, "", "")


def test_partitions_are_added(kafka_topics, topic):
    kafka_topics("--create", "--topic", topic, "--partitions", "1")
    assert kafka_topics("--alter", "--topic", topic, "--partitions", "3").exit_code == 0
    described = kafka_topics("--describe", "--topic", topic).stdout
    assert "PartitionCount: 3" in described
    fewer = kafka_topics("--alter", "--topic", topic, "--partitions", "2")
    assert fewer.exit_code == 1
    assert "currently has 3 partition(s)" in fewer.stderr


def test_a_pattern_names_several_topics(kafka_topics, topic):
    for ending in "abc":
        kafka_topics("--create", "--topic", f"{topic}-{ending}")
    listed = kafka_topics("--list", "--topic", f"{topic}-[ab],{topic}-x").stdout
    assert listed == f"{topic}-a\n{topic}-b\n"
    assert kafka_topics("--delete", "--topic", f"{topic}-.*").exit_code == 0
    assert topic not in kafka_topics("--list").stdout


def test_former_days_way_of_changing_settings_still_works(kafka_topics, topic):
    kafka_topics("--create", "--topic", topic)
    result = kafka_topics("--alter", "--topic", topic, "--config", "retention.ms=7")
    assert result.exit_code == 0
    assert result.stdout == f"Updated config for topic {topic}.\n"
    assert "strom topics alter" in result.stderr
    assert "retention.ms=7" in kafka_topics("--describe", "--topic", topic).stdout


@pytest.mark.parametrize(
    "arguments", [[], ["--list", "--create"], ["--create"], ["--list", "--no-such-flag"]]
)
def test_a_wrong_call_is_one_line(strom, arguments):
    result = strom("kafka-topics", *arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_a_pattern_may_exclude_names_by_look_ahead_as_kafkas_tool_allows():
    pattern = topic_pattern("(?!__).*")
    assert pattern.fullmatch("clicks")
    assert not pattern.fullmatch("__consumer_offsets")
