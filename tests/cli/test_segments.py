"""`strom topics segments` on the files of a real broker."""

import json
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data directory whose topic `clicks` has several segments and a retention of one hour."""
    path = tmp_path_factory.mktemp("segments") / "data"
    with BrokerProcess(data=str(path)) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        configs = {"segment.bytes": "1048576", "retention.ms": str(HOUR_MS)}
        admin.create_topics([NewTopic("clicks", 1, config=configs)])["clicks"].result(30)
        producer = Producer({"bootstrap.servers": server.bootstrap_servers})
        for _ in range(3):
            producer.produce("clicks", b"x" * 700_000)
            assert producer.flush(30) == 0
        assert server.terminate() == 0
    return path


def test_segments_are_listed_with_their_deletion(strom, data):
    result = strom("topics", "segments", "clicks", "--data", str(data), "--json")
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [(row["base_offset"], row["next_offset"]) for row in rows] == [(0, 1), (1, 2), (2, 3)]
    assert [row["active"] for row in rows] == [False, False, True]
    assert all(row["size_bytes"] > 700_000 for row in rows)
    assert {"index", "timeindex"} <= rows[0]["index_bytes"].keys()
    now_ms = time.time() * 1000
    for row in rows:
        assert now_ms - 600_000 < row["youngest_ms"] <= now_ms
        assert row["deletion_ms"] == row["youngest_ms"] + HOUR_MS + 1


def test_the_table_is_for_people(strom, data):
    result = strom("topics", "segments", "clicks", "--data", str(data))
    title, *rows = result.stdout.splitlines()
    assert title.split() == [
        *("PARTITION", "FIRST", "OFFSET", "NEXT", "OFFSET", "SIZE", "INDEXES"),
        *("YOUNGEST", "RECORD", "DELETION"),
    ]
    assert len(rows) == 3
    assert "700." in rows[0]


def test_an_unknown_topic_is_answered_with_the_nearest(strom, data):
    result = strom("topics", "segments", "click", "--data", str(data))
    assert result.exit_code == 1
    assert "Did you mean clicks?" in result.stderr


def test_a_folder_of_something_else_is_refused(strom, tmp_path):
    result = strom("topics", "segments", "clicks", "--data", str(tmp_path))
    assert result.exit_code == 1
    assert "is not a data directory" in result.stderr
