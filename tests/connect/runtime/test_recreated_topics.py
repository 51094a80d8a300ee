"""A topic is deleted and recreated under a sink: the new one is read from its beginning."""

import itertools
import json
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from strom.connect.runtime.sink_run import SinkRun
from tests.connect.runtime.troubled import scenes
from tests.connect.runtime.workers import Rest, embedded_worker, wait_until

HERE = "tests.connect.runtime.troubled"
OLD = 10
_numbers = itertools.count(1)


class Cluster:
    """A broker, and a worker on it."""

    def __init__(self, servers, rest):
        self.rest = rest
        self._servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})

    def create(self, topic):
        def is_created():
            try:
                self._admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
            except KafkaException:  # Kafka deletes a while after it has said so
                return False
            return True

        wait_until(is_created)

    def delete(self, topic):
        self._admin.delete_topics([topic])[topic].result()

    def send(self, topic, kind, count):
        """Records with a number that tells the old topic's from the new one's."""
        producer = Producer({"bootstrap.servers": self._servers})
        for number in range(count):
            producer.produce(topic, json.dumps({"n": f"{kind}{number}"}))
        producer.flush()


@pytest.fixture(scope="module", params=["strom", pytest.param("kafka", marks=pytest.mark.oracle)])
def cluster(request):
    servers = request.getfixturevalue(f"{request.param}_server").bootstrap_servers
    group = f"recreated-{next(_numbers)}"
    settings = {
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        "value.converter.schemas.enable": "false",
    }
    with embedded_worker(servers, settings) as running:
        yield Cluster(servers, Rest(running.url))


@pytest.fixture
def name(cluster):
    name = f"recreated{next(_numbers)}"
    yield name
    cluster.rest.ask("DELETE", f"/connectors/{name}")


def file_sink(folder, name):
    file = folder / "out"

    def stored():
        return [json.loads(line)["n"] for line in file.read_text().splitlines()]

    return {"connector__class": "FileStreamSink", "file": file, "format": "json"}, stored


def database_sink(folder, name):
    path = folder / "out.db"

    def stored():
        with closing(sqlite3.connect(path)) as database:
            return [n for (n,) in database.execute("SELECT n FROM t ORDER BY rowid")]

    settings = {"connection__url": f"jdbc:sqlite:{path}", "table__name__format": "t"}
    return {"connector__class": "JdbcSink", "auto__create": "true", **settings}, stored


def parquet_sink(folder, name):
    import pyarrow.dataset as ds

    settings = {"path": folder, "table__name__format": "t", "format": "parquet"}

    def stored():
        files = list((folder / "t").glob("*.parquet"))
        return ds.dataset(files).to_table()["n"].to_pylist() if files else []

    return {"connector__class": "LakeSink", **settings}, stored


def delta_sink(folder, name):
    from deltalake import DeltaTable

    settings = {"path": folder, "table__name__format": "t", "format": "delta"}
    return {
        "connector__class": "LakeSink",
        **settings,
    }, lambda: DeltaTable(folder / "t").to_pyarrow_table()["n"].to_pylist()


def sink_without_positions(folder, name):
    scene = scenes[name]
    settings = {"connector__class": f"{HERE}:TroubledSink", "scene": name}
    return settings, lambda: [value["n"] for value in scene.stored]


def is_there(stored, count):
    def true():
        try:
            return len(stored()) >= count
        except (OSError, sqlite3.Error):  # it is not made yet
            return False
        except Exception as error:  # of deltalake, which is not imported here
            if type(error).__name__ != "TableNotFoundError":
                raise
            return False

    return true


def filled(cluster, name, sink, folder):
    """A connector that has stored all of the old topic; returns how to read what it has stored."""
    settings, stored = sink(folder, name)
    cluster.create(name)
    cluster.send(name, "old", OLD)
    cluster.rest.put(name, topics=name, **settings)
    wait_until(is_there(stored, OLD))
    offsets = f"/connectors/{name}/offsets"
    wait_until(lambda: [one["offset"] for one in cluster.rest.get(offsets)["offsets"]])
    return stored


def is_all_of_both(found, new):
    """Whether all records of the old and the new topic are there, and once."""
    wanted = [f"old{number}" for number in range(OLD)] + [f"new{n}" for n in range(new)]
    return sorted(found) == sorted(wanted)


SINKS = [file_sink, database_sink, parquet_sink, delta_sink, sink_without_positions]
ON_BOTH = [file_sink, sink_without_positions]
CASES = [
    *[("strom", sink) for sink in SINKS],
    *[pytest.param("kafka", sink, marks=pytest.mark.oracle) for sink in ON_BOTH],
]


@pytest.mark.parametrize(("cluster", "sink"), CASES, indirect=["cluster"])
def test_a_topic_that_was_recreated_while_the_sink_was_stopped(cluster, name, tmp_path, sink):
    stored = filled(cluster, name, sink, tmp_path)
    cluster.rest.ask("PUT", f"/connectors/{name}/stop")
    cluster.rest.wait_for_states(name, "STOPPED", tasks=0)
    cluster.delete(name)
    cluster.create(name)
    cluster.send(name, "new", OLD + 5)
    cluster.rest.ask("PUT", f"/connectors/{name}/resume")
    wait_until(is_there(stored, OLD + OLD + 5), 20)
    wait_until(lambda: is_all_of_both(stored(), OLD + 5), 20)


@pytest.mark.parametrize(("cluster", "sink"), CASES, indirect=["cluster"])
def test_a_topic_that_is_recreated_while_the_sink_runs(cluster, name, tmp_path, sink):
    stored = filled(cluster, name, sink, tmp_path)
    cluster.delete(name)
    cluster.create(name)
    cluster.send(name, "new", OLD + 5)
    wait_until(is_there(stored, OLD + OLD + 5), 20)
    wait_until(lambda: is_all_of_both(stored(), OLD + 5), 20)


@pytest.mark.parametrize(
    ("cluster", "sink"),
    [("strom", file_sink), ("strom", database_sink)],
    indirect=["cluster"],
)
def test_records_that_come_right_after_it_was_noticed_are_stored_once(
    cluster, name, tmp_path, monkeypatch, sink
):
    stored = filled(cluster, name, sink, tmp_path)
    note, is_filled = SinkRun._note_recreated, threading.Event()

    def note_and_send(run, present):
        note(run, present)
        if run.unit.connector == name:
            # The consumer waits at the end of the new topic, which is that of the old one.
            is_filled.wait(20)
            cluster.send(name, "late", 5)
            time.sleep(1)  # the consumer fetches them meanwhile

    monkeypatch.setattr(SinkRun, "_note_recreated", note_and_send)
    cluster.delete(name)
    cluster.create(name)
    cluster.send(name, "new", OLD)
    is_filled.set()
    wait_until(is_there(stored, OLD + OLD + 5), 20)
    cluster.send(name, "last", 1)
    wait_until(lambda: stored()[-1] == "last0")
    counts = Counter(value.rstrip("0123456789") for value in stored())
    assert counts == {"old": OLD, "new": OLD, "late": 5, "last": 1}


@pytest.mark.parametrize("new", [OLD - 5, OLD])
def test_a_recreated_topic_that_has_not_grown_past_the_old_one(cluster, name, tmp_path, new):
    """Then the consumer is sent back, or sees no record at all."""
    stored = filled(cluster, name, file_sink, tmp_path)
    cluster.delete(name)
    cluster.create(name)
    cluster.send(name, "new", new)
    wait_until(is_there(stored, OLD + new), 20)
    wait_until(lambda: is_all_of_both(stored(), new), 20)


@pytest.mark.parametrize("cluster", ["strom"], indirect=True)
def test_offsets_that_are_altered_for_the_recreated_topic_count(cluster, name, tmp_path):
    stored = filled(cluster, name, file_sink, tmp_path)
    cluster.rest.ask("PUT", f"/connectors/{name}/stop")
    cluster.rest.wait_for_states(name, "STOPPED", tasks=0)
    cluster.delete(name)
    cluster.create(name)
    cluster.send(name, "new", 5)
    place = {"kafka_topic": name, "kafka_partition": 0}
    offsets = {"offsets": [{"partition": place, "offset": {"kafka_offset": 3}}]}
    status, body, _ = cluster.rest.ask("PATCH", f"/connectors/{name}/offsets", offsets)
    assert status == 200, body
    cluster.rest.ask("PUT", f"/connectors/{name}/resume")
    wait_until(is_there(stored, OLD + 2), 20)
    assert stored()[OLD:] == ["new3", "new4"]
