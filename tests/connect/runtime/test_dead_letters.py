"""Dead letters of sinks: durable before any position behind them, and written once."""

import itertools
import sqlite3
import threading
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from strom.connect.api import PoisonRecord, RetriableError
from strom.connect.runtime.sink_run import SinkRun
from strom.testing import LocalBroker
from tests.connect.runtime.troubled import scenes
from tests.connect.runtime.workers import Rest, WorkerProcess, embedded_worker, send, wait_until

HERE = "tests.connect.runtime.troubled"
GOOD, BAD = '{"x": 1}', "no JSON"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def servers():
    with LocalBroker(settings={"group.min.session.timeout.ms": "1000"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def rest(servers):
    with embedded_worker(servers, {"value.converter.schemas.enable": "false"}) as running:
        yield Rest(running.url)


@pytest.fixture
def name():
    return f"letters{next(_numbers)}"


def add(rest, name, **settings):
    rest.put(
        name,
        topics=name,
        errors__tolerance="all",
        errors__deadletterqueue__topic__name=f"{name}-dead",
        **settings,
    )


def letters(servers, name):
    """How many dead letters there are."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "judge"})
    with closing(consumer):
        try:
            return consumer.get_watermark_offsets(TopicPartition(f"{name}-dead", 0), timeout=10)[1]
        except KafkaException:  # there is no such topic yet
            return 0


def committed(rest, name):
    offsets = rest.get(f"/connectors/{name}/offsets")["offsets"]
    return sum(one["offset"]["kafka_offset"] for one in offsets)


def restart(rest, name):
    for action, state in (("stop", "STOPPED"), ("resume", "RUNNING")):
        rest.ask("PUT", f"/connectors/{name}/{action}")
        rest.wait_for_states(name, state, tasks=0 if state == "STOPPED" else 1)


def file_sink(folder):
    file = folder / "out"
    settings = {"connector__class": "FileStreamSink", "file": file, "format": "json"}
    return settings, lambda: len(file.read_text().splitlines())


def database_sink(folder):
    path = folder / "out.db"
    settings = {
        "connector__class": "JdbcSink",
        "connection__url": f"jdbc:sqlite:{path}",
        "auto__create": "true",
        "table__name__format": "t",
    }

    def count():
        with closing(sqlite3.connect(path)) as database:
            return database.execute("SELECT count(*) FROM t").fetchone()[0]

    return settings, count


def lake_sink(folder):
    import pyarrow.dataset as ds

    settings = {"connector__class": "LakeSink", "path": folder, "table__name__format": "t"}
    settings["format"] = "parquet"
    return settings, lambda: ds.dataset(folder / "t").count_rows()


@pytest.mark.parametrize(
    ("sink", "values"),
    [
        (file_sink, (GOOD, BAD, BAD)),
        (database_sink, (GOOD, BAD, BAD)),
        (lake_sink, (GOOD, BAD, BAD)),
        (file_sink, (GOOD, BAD, GOOD)),
    ],
)
def test_a_dead_letter_is_not_written_again_after_a_clean_restart(
    rest, servers, name, tmp_path, sink, values
):
    settings, stored = sink(tmp_path)
    bad, good = values.count(BAD), values.count(GOOD)
    send(servers, name, *values)
    add(rest, name, **settings)
    wait_until(lambda: committed(rest, name) == 3)
    restart(rest, name)
    send(servers, name, GOOD, BAD)  # behind everything that a restart could have read again
    wait_until(lambda: committed(rest, name) == 5)
    rest.ask("DELETE", f"/connectors/{name}")
    assert (letters(servers, name), stored()) == (bad + 1, good + 1)


@pytest.mark.parametrize("sink", [database_sink])
def test_nor_where_only_bad_records_came_since_the_last_flush(rest, servers, name, tmp_path, sink):
    settings, stored = sink(tmp_path)
    send(servers, name, GOOD)
    add(rest, name, **settings)
    wait_until(lambda: committed(rest, name) == 1)
    send(servers, name, BAD, BAD)
    wait_until(lambda: committed(rest, name) == 3)
    restart(rest, name)
    send(servers, name, BAD)
    wait_until(lambda: committed(rest, name) == 4)
    rest.ask("DELETE", f"/connectors/{name}")
    assert (letters(servers, name), stored()) == (3, 1)


def test_a_dead_letter_is_durable_before_the_records_behind_it_are_put(rest, servers, name):
    scene = scenes[name]
    taken = []

    def put(records):
        for index, record in enumerate(records):
            if record.value == "refused":
                raise PoisonRecord("It is refused.", index)
        taken.append((records[-1].offset, letters(servers, name)))

    scene.on_put = put
    send(servers, name, GOOD, '"refused"', BAD, GOOD)
    add(rest, name, connector__class=f"{HERE}:TroubledSink", scene=name)
    wait_until(lambda: len(scene.stored) == 2)
    rest.ask("DELETE", f"/connectors/{name}")
    for last, durable in taken:
        assert durable >= sum(bad < last for bad in (1, 2))
    assert letters(servers, name) == 2


@pytest.mark.parametrize("call", ["put", "flush"])
def test_a_sink_that_is_away_does_not_repeat_dead_letters(rest, servers, name, call):
    scene = scenes[name]
    add(
        rest,
        name,
        connector__class=f"{HERE}:TroubledSink",
        scene=name,
        errors__retry__delay__max__ms=20,
    )
    rest.wait_for_states(name, "RUNNING", tasks=1)
    scene.trouble = {call: [RetriableError("away")] * 2}
    send(servers, name, GOOD, BAD, GOOD)
    wait_until(lambda: len(scene.stored) == 2)
    wait_until(lambda: committed(rest, name) == 3)
    rest.ask("DELETE", f"/connectors/{name}")
    assert letters(servers, name) == 1


def test_a_topic_that_is_recreated_during_a_rebalance_gets_its_own_dead_letters(
    rest, servers, name, monkeypatch
):
    scene = scenes[name]
    scene.trouble = {"put": [RetriableError("away")] * 100_000}
    send(servers, name, BAD, GOOD)
    settings = {"connector__class": f"{HERE}:TroubledSink", "scene": name}
    add(rest, name, errors__retry__delay__max__ms=20, **settings)
    wait_until(lambda: letters(servers, name) == 1)
    on_lost, recreated = SinkRun._on_lost, threading.Event()
    admin = AdminClient({"bootstrap.servers": servers})

    def lose_and_recreate(run, consumer, partitions):
        on_lost(run, consumer, partitions)
        if run.unit.connector == name and not recreated.is_set():
            admin.delete_topics([name])[name].result()
            admin.create_topics([NewTopic(name, 1, 1)])[name].result()
            send(servers, name, BAD, GOOD)
            recreated.set()

    monkeypatch.setattr(SinkRun, "_on_lost", lose_and_recreate)
    group = {"group.id": f"connect-{name}", "enable.auto.commit": False}
    with closing(Consumer({"bootstrap.servers": servers, **group})) as other:
        other.subscribe([name])
        wait_until(lambda: other.poll(0.1) is not None or recreated.is_set())
    scene.trouble = {}
    wait_until(lambda: committed(rest, name) == 2)
    rest.ask("DELETE", f"/connectors/{name}")
    assert letters(servers, name) >= 2  # a rebalance may repeat one


def test_a_crash_between_a_dead_letter_and_its_position_repeats_it_once(servers, name, tmp_path):
    file = tmp_path / "out"
    send(servers, name, GOOD, BAD)
    worker = WorkerProcess(
        servers,
        **{
            "group.id": name,
            "session.timeout.ms": "1500",
            "config.storage.topic": f"{name}-configs",
            "offset.storage.topic": f"{name}-offsets",
            "status.storage.topic": f"{name}-status",
            "value.converter": "JSON",
            "value.converter.schemas.enable": "false",
        },
    ).start()
    try:
        add(
            worker.rest,
            name,
            connector__class="tests.connect.runtime.dying:DyingFileSink",
            file=file,
            format="json",
        )
        worker.process.wait(60)  # it kills itself
        assert letters(servers, name) == 1
        worker.kill()
        worker.start()
        wait_until(lambda: committed(worker.rest, name) == 2)
        assert letters(servers, name) == 2
        restart(worker.rest, name)
        assert worker.terminate() == 0
    finally:
        worker.stop()
    assert letters(servers, name) == 2
    assert file.read_text().splitlines() == ['{"x":1}']


def test_a_dead_letter_that_is_too_large_fails_the_task_with_what_to_raise(rest, servers, name):
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": 2_000_000})
    producer.produce(name, "x" * 1_010_000)
    producer.flush()
    settings = {"connector__class": f"{HERE}:TroubledSink", "scene": name}
    add(rest, name, **settings)
    wait_until(lambda: rest.states(name).get(0, {}).get("state") == "FAILED")
    trace = rest.states(name)[0]["trace"]
    assert f"topic {name}, partition 0, offset 0" in trace
    assert "producer.override.message.max.bytes" in trace
    add(rest, name, producer__override__message__max__bytes=1_040_000, **settings)
    wait_until(lambda: letters(servers, name) == 1)
    rest.ask("DELETE", f"/connectors/{name}")
