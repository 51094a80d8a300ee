"""`strom consume`."""

import json
import signal
import time

import pytest

NUMBERS = "".join(f"{number}\n" for number in range(10))


@pytest.mark.parametrize(
    ("offset", "printed"),
    [
        (":end", range(10)),
        ("start:end", range(10)),
        ("4:6", range(4, 6)),
        ("-3:end", range(7, 10)),
        ("+2:-2", range(2, 8)),
        ("8:8", range(0)),
        ("@-1h:end", range(10)),
        ("@-2h:-1h", range(0)),
    ],
)
def test_a_range_is_read_and_no_more(strom_at_broker, filled_topic, offset, printed):
    result = strom_at_broker("consume", filled_topic, "--offset", offset)
    assert result.exit_code == 0
    assert result.stdout == "".join(f"{number}\n" for number in printed)
    assert result.stderr == ""


def test_from_the_beginning_as_many_as_asked_for(strom_at_broker, filled_topic):
    result = strom_at_broker("consume", filled_topic, "--from-beginning", "-n", "4")
    assert result.exit_code == 0
    assert result.stdout == "0\n1\n2\n3\n"


def test_it_stops_when_nothing_comes_for_a_while(strom_at_broker, filled_topic):
    result = strom_at_broker("consume", filled_topic, "--from-beginning", "--timeout-ms", "5000")
    assert result.exit_code == 0
    assert result.stdout == NUMBERS


def test_without_an_offset_only_new_records_are_shown(strom_at_broker, filled_topic):
    result = strom_at_broker("consume", filled_topic, "--timeout-ms", "500")
    assert result.stdout == ""


def test_all_partitions_of_all_topics_are_read(strom_at_broker, topic):
    for name in (topic, f"{topic}-b"):
        strom_at_broker("topics", "create", name, "-p", "3")
        for partition in range(3):
            stdin = f"{name} {partition}\n".encode()
            strom_at_broker("produce", name, "-p", str(partition), stdin=stdin)
    result = strom_at_broker("consume", topic, f"{topic}-b", "-o", ":end")
    assert sorted(result.stdout.splitlines()) == sorted(
        f"{name} {partition}" for name in (topic, f"{topic}-b") for partition in range(3)
    )
    one = strom_at_broker("consume", topic, "-o", ":end", "-p", "1")
    assert one.stdout == f"{topic} 1\n"


def test_json_and_templates(strom_at_broker, filled_topic):
    result = strom_at_broker("consume", filled_topic, "-o", "3:4", "--json")
    record = json.loads(result.stdout)
    assert abs(record.pop("timestamp") - time.time() * 1000) < 3_600_000
    assert record == {
        "topic": filled_topic,
        "partition": 0,
        "offset": 3,
        "key": None,
        "value": "3",
        "headers": [],
    }
    result = strom_at_broker("consume", filled_topic, "-o", "3:5", "-f", r"%p@%o=%v;")
    assert result.stdout == "0@3=3;0@4=4;"


def test_an_offset_that_was_not_there_is_reported(strom_at_broker, filled_topic):
    result = strom_at_broker("consume", filled_topic, "-o", "99", "--timeout-ms", "300")
    assert result.exit_code == 0
    assert result.stderr == f"{filled_topic}-0 has no offset 99: reading from 10 on.\n"


def test_a_missing_topic_is_an_error_that_creates_nothing(strom_at_broker, topic):
    result = strom_at_broker("consume", topic)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: Topic {topic} does not exist. ")
    assert topic not in strom_at_broker("topics", "list").stdout


def test_a_missing_partition_is_an_error(strom_at_broker, filled_topic):
    result = strom_at_broker("consume", filled_topic, "-p", "5")
    assert result.exit_code == 1
    assert result.stderr == f"Error: Topic {filled_topic} has no partition 5, only 0 to 0.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["-o", "nonsense"],
        ["-f", "nonsense"],
        ["-f", "%q"],
        ["-o", "3", "--from-beginning"],
        ["-g", "g", "-o", "3"],
        ["-g", "g", "-p", "0"],
        ["-n", "0"],
    ],
)
def test_what_makes_no_sense_is_a_wrong_call(strom, arguments):
    result = strom("consume", "clicks", *arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_records_are_shown_as_they_come(start_strom, strom_at_broker, filled_topic):
    process = start_strom("consume", filled_topic, "-o", "-1")
    assert process.stdout.readline() == b"9\n"
    strom_at_broker("produce", filled_topic, stdin=b"ten\n")
    assert process.stdout.readline() == b"ten\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)


@pytest.mark.slow
def test_a_new_partition_is_found(start_strom, strom_at_broker, filled_topic):
    process = start_strom("consume", filled_topic, "-o", "-1", "-n", "2")
    assert process.stdout.readline() == b"9\n"
    strom_at_broker("topics", "alter", filled_topic, "--partitions", "2")
    strom_at_broker("produce", filled_topic, "-p", "1", stdin=b"from the new one\n")
    output, _ = process.communicate(timeout=40)
    assert output == b"from the new one\n"
