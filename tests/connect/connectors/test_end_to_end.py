"""Connectors in a real worker, on a real broker: what goes in at one end comes out at the other."""

import json
import threading
import time
from contextlib import closing

import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from strom.connect.runtime.commands import Commands
from strom.connect.runtime.worker import ConnectWorker
from strom.testing import LocalBroker
from tests.connect.connectors.web.web_server import Reply, web_server

TEXT = {"key.converter": "String", "value.converter": "String"}
JSON = {"value.converter": "JSON", "value.converter.schemas.enable": "false"}
PATIENCE_S = 60


@pytest.fixture(scope="module")
def broker():
    with LocalBroker(queues=True) as running:
        yield running


@pytest.fixture
def new_worker(broker):
    """Starts workers of one group; whoever is still running is stopped after the test."""
    running = []
    names = threading.Lock()

    def start(group):
        with names:
            worker = ConnectWorker(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "group.id": group,
                    "config.storage.topic": f"{group}-configs",
                    "offset.storage.topic": f"{group}-offsets",
                    "status.storage.topic": f"{group}-status",
                    "offset.flush.interval.ms": "200",
                    "offset.storage.partitions": "1",
                    "status.storage.partitions": "1",
                }
            )
        worker.start()
        running.append(worker)
        return worker

    yield start
    for worker in running:
        worker.stop()


def add(worker, name, **settings):
    texts = {key.replace("_", "."): value for key, value in settings.items()}
    Commands(worker).put(name, texts, replace=False)


def wait_for(what):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)
    return found


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_a_rotated_file_is_copied_line_by_line_though_the_worker_is_replaced(new_worker, tmp_path):
    source, target = tmp_path / "app.log", tmp_path / "copy"
    worker = new_worker("files")
    add(worker, "in", connector_class="FileStreamSource", file=str(source), topic="lines", **TEXT)
    add(worker, "out", connector_class="FileStreamSink", file=str(target), topics="lines", **TEXT)
    source.write_text("".join(f"{number}\n" for number in range(1000)))
    wait_for(lambda: len(lines(target)) >= 1000)
    worker.stop()
    with source.open("a") as file:
        file.writelines(f"{number}\n" for number in range(1000, 1500))
    source.rename(tmp_path / "app.log.1")
    source.write_text("".join(f"{number}\n" for number in range(1500, 2000)))
    new_worker("files")
    wait_for(lambda: len(lines(target)) >= 2000)
    assert lines(target) == [str(number) for number in range(2000)]


def test_malformed_lines_pass_where_they_may_and_the_rest_arrives(new_worker, tmp_path):
    source, target = tmp_path / "in.json", tmp_path / "out.csv"
    source.write_text('{"n": 1, "t": "a"}\n{oops\n{"n": 2, "t": "b,c"}\n')
    worker = new_worker("malformed")
    add(
        worker,
        "in",
        connector_class="FileStreamSource",
        file=str(source),
        topic="rows",
        format="json",
        errors_tolerance="all",
        **JSON,
    )
    add(
        worker,
        "out",
        connector_class="FileStreamSink",
        file=str(target),
        topics="rows",
        format="csv",
        **JSON,
    )
    wait_for(lambda: len(lines(target)) >= 3)
    assert lines(target) == ["n,t", "1,a", '2,"b,c"']


def test_messages_of_a_queue_are_sent_to_an_http_interface(new_worker, broker):
    with (
        web_server() as web,
        pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection,
    ):
        web.reply = lambda asked: Reply(status=400 if b"bad" in asked.body else 200)
        web.failures = [Reply(status=503)]
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        worker = new_worker("queue-to-http")
        address = broker.amqp_url.replace("guest:guest@", "")
        add(
            worker,
            "in",
            connector_class="AmqpSource",
            url=address,
            queues="orders",
            topic="orders",
            format="json",
            **JSON,
        )
        add(
            worker,
            "out",
            connector_class="HttpSink",
            url=f"{web.url}/orders/{{id}}",
            method="PUT",
            topics="orders",
            errors_tolerance="all",
            errors_deadletterqueue_topic_name="orders-dead",
            errors_deadletterqueue_topic_replication_factor="1",
            **JSON,
        )
        for number in range(20):
            order = {"id": number, "what": "bad" if number == 7 else "tea"}
            channel.basic_publish("", "orders", json.dumps(order))
        wait_for(lambda: len(web.asked) >= 21)
        wait_for(lambda: not channel.queue_declare("orders", passive=True).method.message_count)
        paths = [asked.path for asked in web.asked[1:]]
        assert paths == [f"/orders/{number}" for number in range(20)]


def test_what_an_http_interface_answers_is_published_to_a_queue(new_worker, broker):
    with (
        web_server() as web,
        pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection,
    ):
        rows = [{"id": number} for number in range(5)]
        web.reply = lambda asked: Reply(
            json.dumps([row for row in rows if row["id"] > int(asked.query["after"])])
        )
        channel = connection.channel()
        channel.queue_declare("rows")
        worker = new_worker("http-to-queue")
        add(
            worker,
            "in",
            connector_class="HttpSource",
            url=f"{web.url}/rows",
            topic="http-rows",
            poll_interval_ms="50",
            incremental_pointer="/id",
            incremental_parameter="after",
            incremental_initial="-1",
            **JSON,
        )
        add(
            worker,
            "out",
            connector_class="AmqpSink",
            url=broker.amqp_url.replace("guest:guest@", ""),
            routing_key="rows",
            topics="http-rows",
            **JSON,
        )
        found = []

        def all_there():
            _, _, body = channel.basic_get("rows", auto_ack=True)
            if body is not None:
                found.append(json.loads(body)["id"])
            if len(found) == 5 == len(rows):  # more comes when the first are through
                rows.extend({"id": number} for number in range(5, 10))
            return len(found) >= 10

        wait_for(all_there)
        assert found == list(range(10))


def test_records_that_a_lake_table_would_change_become_dead_letters(new_worker, broker, tmp_path):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def send(*values):
        for value in values:
            producer.produce("events", json.dumps(value))
        assert producer.flush(10) == 0

    def stored():
        try:
            return DeltaTable(tmp_path / "events").to_pyarrow_table().to_pylist()
        except TableNotFoundError:
            return []

    worker = new_worker("lake")
    add(
        worker,
        "lake",
        connector_class="LakeSink",
        topics="events",
        path=str(tmp_path),
        format="delta",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="events-dead",
        errors_deadletterqueue_topic_replication_factor="1",
        errors_deadletterqueue_context_headers_enable="true",
        **JSON,
    )
    send({"n": 0, "v": {"ok": True}})
    wait_for(stored)
    send({"n": "one", "v": None}, {"n": 2, "v": {"ok": 7}}, {"n": 3, "v": {"ok": False, "w": 1}})
    wait_for(lambda: len(stored()) == 2)
    assert sorted(stored(), key=lambda row: row["n"]) == [
        {"n": 0, "v": {"ok": True, "w": None}},
        {"n": 3, "v": {"ok": False, "w": 1}},
    ]
    with closing(
        Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "dead-letters"})
    ) as consumer:
        consumer.assign([TopicPartition("events-dead", 0, 0)])
        letters = consumer.consume(2, PATIENCE_S)
    reasons = [dict(letter.headers())["__connect.errors.exception.message"] for letter in letters]
    assert [json.loads(letter.value())["n"] for letter in letters] == ["one", 2]
    assert b"Field n: the value 'one' (string)" in reasons[0]
    assert b"Field v.ok: the value 7 (int64)" in reasons[1]
