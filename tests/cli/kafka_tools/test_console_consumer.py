"""`strom kafka-console-consumer`."""

import json
import signal
import struct
import time

import pytest

from strom.cli.kafka_tools.console_format import ConsoleFormat
from strom.model.errors import UserError


@pytest.fixture
def read(strom_at_broker):
    return lambda *arguments: strom_at_broker("kafka-console-consumer", *arguments)


def test_the_lectures_session(read, filled_topic):
    result = read("--topic", filled_topic, "--from-beginning", "--timeout-ms", "3000")
    assert result.exit_code == 0
    assert result.stdout == "".join(f"{number}\n" for number in range(10))
    assert result.stderr == "Processed a total of 10 messages\n"
    arguments = ["--topic", filled_topic, "--partition", "0", "--offset", "2"]
    result = read(*arguments, "--max-messages", "3")
    assert result.stdout == "2\n3\n4\n"
    assert result.stderr == "Processed a total of 3 messages\n"


def test_everything_about_a_record_in_kafkas_order(read, strom_at_broker, topic):
    now = time.time_ns() // 1_000_000
    full = {"key": "k", "value": "v", "timestamp": now, "headers": {"a": "1", "b": None}}
    bare = {"value": None, "timestamp": now + 1}
    lines = f"{json.dumps(full)}\n{json.dumps(bare)}\n".encode()
    strom_at_broker("produce", topic, "-f", "json", stdin=lines)
    wanted = ("timestamp", "partition", "offset", "headers", "key")
    flags = [part for name in wanted for part in ("--property", f"print.{name}=true")]
    result = read("--topic", topic, "--from-beginning", "--max-messages", "2", *flags)
    assert result.stdout == (
        f"CreateTime:{now}\tPartition:0\tOffset:0\ta:1,b:null\tk\tv\n"
        f"CreateTime:{now + 1}\tPartition:0\tOffset:1\tNO_HEADERS\tnull\tnull\n"
    )


def test_bytes_reach_a_pipe_untouched(read, strom_at_broker, topic):
    strom_at_broker("produce", topic, stdin=b"\xff\x00\x1b\n")
    result = read("--topic", topic, "--from-beginning", "--max-messages", "1")
    assert result.stdout_bytes == b"\xff\x00\x1b\n"


@pytest.mark.parametrize("flag", ["--include", "--whitelist"])
def test_a_pattern_names_several_topics(read, strom_at_broker, topic, flag):
    for name in (f"{topic}-a", f"{topic}-b", f"other-{topic}"):
        strom_at_broker("produce", name, stdin=f"{name}\n".encode())
    result = read(flag, f"{topic}-.*", "--from-beginning", "--timeout-ms", "3000")
    assert sorted(result.stdout.split()) == [f"{topic}-a", f"{topic}-b"]


def test_a_topic_that_is_not_there_yet_is_waited_for(start_strom, strom_at_broker, topic):
    process = start_strom("kafka-console-consumer", "--topic", topic, "--max-messages", "1")
    assert process.stderr.readline().startswith(b"Note: there is no topic ")
    strom_at_broker("produce", topic, stdin=b"first\n")
    output, errors = process.communicate(timeout=40)
    assert output == b"first\n"
    assert errors == b"Processed a total of 1 messages\n"


def test_ctrl_c_prints_the_total(start_strom, filled_topic):
    process = start_strom("kafka-console-consumer", "--topic", filled_topic, "--from-beginning")
    lines = [process.stdout.readline() for _ in range(10)]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert lines[-1] == b"9\n"
    assert errors.strip() == b"Processed a total of 10 messages"
    assert process.returncode == 130


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--topic", "a", "--include", "b"],
        ["--topic", "a", "--offset", "3"],
        ["--include", "a", "--partition", "3"],
        ["--topic", "a", "--partition", "0", "--offset", "-3"],
        ["--topic", "a", "--partition", "0", "--offset", "3", "--from-beginning"],
        ["--topic", "a", "--no-such-flag"],
    ],
)
def test_a_wrong_call_is_one_line(strom, arguments):
    result = strom("kafka-console-consumer", *arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


class Message:
    """A record as confluent-kafka hands it out."""

    def __init__(self, key=None, value=None):
        self._key, self._value = key, value

    def key(self):
        return self._key

    def value(self):
        return self._value


@pytest.mark.parametrize(
    ("deserializer", "data", "text"),
    [
        ("LongDeserializer", struct.pack(">q", -5), b"-5\n"),
        ("org.apache.kafka.common.serialization.IntegerDeserializer", struct.pack(">i", 7), b"7\n"),
        ("DoubleDeserializer", struct.pack(">d", 0.5), b"0.5\n"),
        ("StringDeserializer", b"text", b"text\n"),
    ],
)
def test_numbers_are_read_as_java_wrote_them(deserializer, data, text):
    formatter = ConsoleFormat({"value.deserializer": deserializer}).formatter()
    assert formatter(Message(value=data)) == text


def test_data_of_another_size_is_no_such_number():
    formatter = ConsoleFormat({"value.deserializer": "LongDeserializer"}).formatter()
    with pytest.raises(UserError, match="Size of data"):
        formatter(Message(value=b"text"))


def test_an_unknown_deserializer_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match="LongDeserializer"):
        ConsoleFormat({"key.deserializer": "AvroDeserializer"}).formatter()


def test_separators_and_the_literal_for_null():
    properties = {"print.key": "true", "key.separator": "=", "line.separator": ";",
                  "null.literal": "nil"}  # fmt: skip
    formatter = ConsoleFormat(properties).formatter()
    assert formatter(Message(value=b"v")) == b"nil=v;"


def test_no_record_controls_the_terminal():
    formatter = ConsoleFormat(terminal=True).formatter()
    assert formatter(Message(value=b"\x1b[2J")) == b"\\x1b[2J\n"
