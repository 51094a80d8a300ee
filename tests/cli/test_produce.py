"""`strom produce`."""

import json
import subprocess
import time

import pytest


def stored(strom_at_broker, topic):
    result = strom_at_broker("consume", topic, "-o", ":end", "--json")
    assert result.exit_code == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    return sorted(records, key=lambda record: (record["partition"], record["offset"]))


def test_lines_become_records(strom_at_broker, topic):
    result = strom_at_broker("produce", topic, stdin=b"one\n\nthr\xc3\xa4e\r\nlast")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.startswith(f"Produced 4 records to {topic} in ")
    values = [record["value"] for record in stored(strom_at_broker, topic)]
    assert values == ["one", "", "thräe", "last"]


def test_files_are_sent_one_after_the_other(strom_at_broker, topic, tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_bytes(b"\xff\x00")
    result = strom_at_broker("produce", topic, str(tmp_path / "a"), str(tmp_path / "b"), "-q")
    assert result.exit_code == 0
    assert result.stderr == ""
    records = stored(strom_at_broker, topic)
    assert [record.get("value") for record in records] == ["1", "2", None]
    assert records[2]["value_base64"] == "/wA="


def test_keys_and_headers(strom_at_broker, topic):
    stdin = b"ada\tfirst\n"
    strom_at_broker("produce", topic, "-k", r"\t", "-H", "from=test", stdin=stdin)
    (record,) = stored(strom_at_broker, topic)
    assert (record["key"], record["value"]) == ("ada", "first")
    assert record["headers"] == [{"key": "from", "value": "test"}]


def test_json_lines_say_everything(strom_at_broker, topic):
    strom_at_broker("topics", "create", topic, "-p", "3")
    line = {
        "key": "k",
        "value": {"page": "/"},
        "partition": 2,
        "timestamp": time.time_ns() // 1_000_000,
        "headers": [{"key": "h", "value": None}],
    }
    strom_at_broker("produce", topic, "-f", "json", stdin=json.dumps(line).encode())
    (record,) = stored(strom_at_broker, topic)
    assert record == {"topic": topic, "offset": 0, **line, "value": '{"page":"/"}'}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives(strom_at_broker, topic, codec):
    stdin = b"the same words again and again\n" * 100
    assert strom_at_broker("produce", topic, "-z", codec, stdin=stdin).exit_code == 0
    assert len(stored(strom_at_broker, topic)) == 100


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(strom_at_broker, topic, acks):
    strom_at_broker("topics", "create", topic)
    assert strom_at_broker("produce", topic, "--acks", acks, stdin=b"x\n").exit_code == 0


def test_a_line_without_key_is_named_and_the_ones_before_are_sent(strom_at_broker, topic):
    result = strom_at_broker("produce", topic, "-k", ":", stdin=b"a:1\nnokey\nb:2\n")
    assert result.exit_code == 1
    assert "Error: Line 2: No key separator ':' found in 'nokey'." in result.stderr
    assert [record["value"] for record in stored(strom_at_broker, topic)] == ["1"]


def test_a_record_the_client_refuses_is_named(strom_at_broker, topic):
    result = strom_at_broker("produce", topic, stdin=b"fine\n" + b"x" * 2_000_000 + b"\n")
    assert result.exit_code == 1
    assert "Error: Line 2: Message size too large." in result.stderr


def test_a_record_the_broker_refuses_is_an_error(strom_at_broker, topic):
    strom_at_broker("topics", "create", topic, "-c", "max.message.bytes=1000")
    result = strom_at_broker("produce", topic, stdin=b"x" * 5000)
    assert result.exit_code == 1
    assert f"1 of 1 records could not be delivered to {topic}: Message size too large." in (
        result.stderr
    )


def test_a_partition_that_is_not_there_is_an_error(strom_at_broker, topic):
    strom_at_broker("topics", "create", topic)
    result = strom_at_broker("produce", topic, "-p", "7", stdin=b"x\n")
    assert result.exit_code == 1
    assert "Unknown partition" in result.stderr


def test_key_separator_and_json_do_not_go_together(strom):
    assert strom("produce", "t", "-f", "json", "-k", ":").exit_code == 2


def test_lines_are_sent_as_they_come(start_strom, strom_at_broker, topic):
    strom_at_broker("topics", "create", topic)
    reader = start_strom("consume", topic, "-o", "start", "-n", "1")
    writer = start_strom("produce", topic, stdin=subprocess.PIPE)
    writer.stdin.write(b"now\n")
    writer.stdin.flush()
    output, _ = reader.communicate(timeout=20)
    assert output == b"now\n"
    _, summary = writer.communicate(timeout=20)
    assert writer.returncode == 0
    assert summary.startswith(b"Produced 1 record to ")
