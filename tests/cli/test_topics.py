"""`strom topics`."""

import json

import pytest


def describe(strom_at_broker, topic):
    result = strom_at_broker("topics", "describe", topic, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)[0]


def test_a_topic_is_created_with_its_settings(strom_at_broker, topic):
    result = strom_at_broker("topics", "create", topic, "-p", "3", "-c", "retention.ms=5000")
    assert result.exit_code == 0
    assert result.stdout == f"Created topic {topic}.\n"
    described = describe(strom_at_broker, topic)
    assert [partition["number"] for partition in described["partitions"]] == [0, 1, 2]
    assert described["changed"]["retention.ms"] == "5000"


def test_creating_twice_is_an_error_unless_allowed(strom_at_broker, topic):
    assert strom_at_broker("topics", "create", topic).exit_code == 0
    again = strom_at_broker("topics", "create", topic)
    assert again.exit_code == 1
    assert again.stderr == f"Error: Topic '{topic}' already exists.\n"
    assert strom_at_broker("topics", "create", topic, "--if-not-exists").exit_code == 0


@pytest.mark.parametrize(
    "wrong", [["bad name"], ["fine", "-c", "no.such.setting=1"], ["fine", "-c", "retention.ms=x"]]
)
def test_the_brokers_refusal_is_one_line(strom_at_broker, wrong):
    result = strom_at_broker("topics", "create", *wrong)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_topics_are_listed(strom_at_broker, topic):
    strom_at_broker("topics", "create", topic, "-p", "2")
    rows = [line.split() for line in strom_at_broker("topics", "list").stdout.splitlines()]
    assert rows[0] == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert [topic, "2", "1"] in rows
    listed = json.loads(strom_at_broker("topics", "list", "--json").stdout)
    expected = {"name": topic, "partitions": 2, "replication_factor": 1, "internal": False}
    assert expected in listed


def test_offsets_are_described(strom_at_broker, filled_topic):
    partition = describe(strom_at_broker, filled_topic)["partitions"][0]
    assert (partition["earliest"], partition["latest"]) == (0, 10)
    text = strom_at_broker("topics", "describe", filled_topic).stdout
    assert text.splitlines()[-1].split()[-3:] == ["0", "10", "10"]


def test_settings_and_partitions_are_altered(strom_at_broker, topic):
    strom_at_broker("topics", "create", topic, "-c", "retention.ms=5000")
    result = strom_at_broker(
        "topics", "alter", topic, "max.message.bytes=2000", "--delete", "retention.ms",
        "--partitions", "4",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    described = describe(strom_at_broker, topic)
    assert described["changed"]["max.message.bytes"] == "2000"
    assert "retention.ms" not in described["changed"]
    assert len(described["partitions"]) == 4


def test_partitions_cannot_be_taken_away(strom_at_broker, topic):
    strom_at_broker("topics", "create", topic, "-p", "4")
    result = strom_at_broker("topics", "alter", topic, "--partitions", "2")
    assert result.exit_code == 1
    assert "currently has 4 partition" in result.stderr


def test_altering_nothing_is_a_wrong_call(strom):
    assert strom("topics", "alter", "clicks").exit_code == 2


def test_deleting_asks_first_and_says_how_not_to(strom_at_broker, topic):
    strom_at_broker("topics", "create", topic)
    result = strom_at_broker("topics", "delete", topic)
    assert result.exit_code == 1
    assert "--yes" in result.stderr
    assert strom_at_broker("topics", "delete", topic, "--yes").exit_code == 0
    assert strom_at_broker("topics", "describe", topic).exit_code == 1


def test_a_topic_that_is_not_there_is_answered_with_the_nearest(strom_at_broker, topic):
    strom_at_broker("topics", "create", topic)
    result = strom_at_broker("topics", "describe", topic[:-1])
    assert result.exit_code == 1
    assert result.stderr == f"Error: Topic {topic[:-1]} does not exist. Did you mean {topic}?\n"
