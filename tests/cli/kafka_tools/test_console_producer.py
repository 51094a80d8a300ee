"""`strom kafka-console-producer`."""

import json

import pytest


@pytest.fixture
def send(strom_at_broker, topic):
    def call(*arguments, stdin):
        return strom_at_broker("kafka-console-producer", "--topic", topic, *arguments, stdin=stdin)

    return call


@pytest.fixture
def stored(strom_at_broker, topic):
    def read():
        output = strom_at_broker("consume", topic, "-o", ":end", "--json").stdout
        return [json.loads(line) for line in output.splitlines()]

    return read


def test_lines_are_sent_without_a_word(send, stored):
    result = send(stdin=b"Pizza test\nI am hungry\n\nWhere can I get pizza?")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert [record["value"] for record in stored()] == [
        "Pizza test",
        "I am hungry",
        "",
        "Where can I get pizza?",
    ]


def test_the_broker_list_of_former_days_is_understood(strom, broker, topic):
    result = strom(
        "kafka-console-producer",
        "--broker-list",
        broker.bootstrap_servers,
        "--topic",
        topic,
        stdin=b"x\n",
    )
    assert result.exit_code == 0
    assert result.stderr == "Note: --broker-list is now called --bootstrap-server.\n"


@pytest.mark.parametrize("flag", ["--property", "--reader-property"])
def test_keys_headers_and_nulls(send, stored, flag):
    properties = [
        "parse.key=true", "parse.headers=true", "key.separator=;", "headers.delimiter=|",
        "null.marker=NULL",
    ]  # fmt: skip
    arguments = [part for text in properties for part in (flag, text)]
    assert send(*arguments, stdin=b"a:1,b:NULL|k;NULL\n").exit_code == 0
    (record,) = stored()
    assert (record["key"], record["value"]) == ("k", None)
    assert record["headers"] == [{"key": "a", "value": "1"}, {"key": "b", "value": None}]


def test_a_file_of_reader_properties(send, stored, tmp_path):
    file = tmp_path / "reader.properties"
    file.write_text("parse.key=true\nkey.separator=-\n")
    send("--reader-config", str(file), "--property", "key.separator=:", stdin=b"a-b:c\n")
    assert [(record["key"], record["value"]) for record in stored()] == [("a-b", "c")]


def test_a_line_without_key_ends_it(send, stored):
    result = send("--property", "parse.key=true", stdin=b"a\t1\nnokey\n")
    assert result.exit_code == 1
    assert result.stderr == "Error: Line 2: No key separator '\\t' found in 'nokey'.\n"
    assert len(stored()) == 1


def test_client_flags_reach_the_client(send, stored):
    result = send(
        "--sync", "--batch-size", "10000", "--compression-codec", "lz4",
        "--request-required-acks", "1", "--timeout", "5", "--max-memory-bytes", "1048576",
        "--producer-property", "linger.ms=1", "--message-send-max-retries", "2",
        stdin=b"1\n2\n",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert len(stored()) == 2


def test_a_codec_without_name_is_gzip(send, stored):
    assert send("--compression-codec", "--sync", stdin=b"1\n").exit_code == 0
    assert len(stored()) == 1


def test_an_unknown_property_is_pointed_out(send):
    result = send("--property", "parse.keys=true", stdin=b"1\n")
    assert result.exit_code == 0
    assert result.stderr == "Note: there is no property parse.keys here; it is ignored.\n"


def test_the_topic_is_needed(strom):
    result = strom("kafka-console-producer")
    assert result.exit_code == 2
    assert "--topic" in result.stderr
