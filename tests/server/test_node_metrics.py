"""What a running broker counts, as Prometheus sees it."""

import asyncio
import contextlib
import http.client
import itertools
import select
import socket
import time
from urllib.parse import urlsplit

import pika
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from strom.app import Node
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import UserError
from strom.server.process_limits import METRICS_CONNECTIONS
from strom.testing import LocalBroker
from tests.metrics.scraping import scrape

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker():
    settings = {"metrics.port": "-1", "auto.create.topics.enable": "false"}
    with LocalBroker(settings=settings, queues=True) as running:
        yield running


@pytest.fixture
def topic(broker):
    name = f"t{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2)])[name].result()
    return name


def send(broker, topic, count, **settings):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    for number in range(count):
        producer.produce(topic, b"x" * 100, partition=number % 2)
    assert producer.flush(30) == 0


def test_appends_and_fetches_are_counted_by_topic(broker, topic):
    send(broker, topic, 10)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": topic,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in (0, 1)])
    received: list[object] = []
    while len(received) < 10:
        received += consumer.consume(10, 1.0)
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    found = scrape(broker.metrics_url)
    assert found.value("strom_topic_records_in_total", topic=topic) == 10
    assert found.value("strom_topic_partitions", topic=topic) == 2
    size = found.value("strom_topic_log_bytes", topic=topic)
    assert size > 1000
    assert found.value("strom_topic_bytes_in_total", topic=topic) == size
    assert found.value("strom_topic_bytes_out_total", topic=topic) >= size
    assert found.value("strom_partition_log_end_offset", topic=topic, partition="1") == 5
    assert found.value("strom_group_lag_records", group=topic, topic=topic, partition="0") == 3
    assert found.value("strom_group_committed_offset", group=topic) == 2
    assert sum(found.values("strom_groups", type="Classic")) >= 1


def test_requests_are_counted_with_their_time_and_their_bytes(broker, topic):
    before = scrape(broker.metrics_url)
    send(broker, topic, 1)
    found = scrape(broker.metrics_url)
    name = {"request": "Produce"}
    counts = [
        sum(one.values("strom_kafka_request_seconds_count", **name)) for one in (before, found)
    ]
    assert counts[1] == counts[0] + 1
    assert found.value("strom_kafka_request_bytes_total", **name) > 100
    assert found.value("strom_kafka_response_bytes_total", **name) > 10
    assert found.value("strom_kafka_request_seconds_sum", **name) > 0
    assert found.value("strom_log_flush_seconds_count") > 0
    assert found.value("strom_group_commit_appends_total") > 0


def test_an_error_code_in_a_response_is_counted(broker, topic):
    with contextlib.suppress(KafkaException):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "nobody"})
        consumer.get_watermark_offsets(TopicPartition("missing", 0), timeout=5)
    found = scrape(broker.metrics_url)
    assert sum(found.values("strom_kafka_request_errors_total", error="UNKNOWN_TOPIC_OR_PARTITION"))


def test_a_request_that_closes_its_connection_is_counted(broker):
    before = scrape(broker.metrics_url).value("strom_kafka_invalid_requests_total")
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"\x00\x00\x00\x08\x7f\xff" + bytes(6))
        assert connection.recv(1) == b""
    assert scrape(broker.metrics_url).value("strom_kafka_invalid_requests_total") == before + 1


def test_transactions_are_counted_by_how_they_ended(broker, topic):
    before = scrape(broker.metrics_url)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"x")
        producer.flush(30)
        end(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush(30)
    found = scrape(broker.metrics_url)
    for result in ("commit", "abort"):
        ended = [
            one.value("strom_transactions_ended_total", result=result) for one in (before, found)
        ]
        assert ended[1] == ended[0] + 1
    assert found.value("strom_transactions", state="Ongoing") == 1
    assert found.value("strom_transactions_hanging") == 0
    producer.abort_transaction(30)


def test_messages_are_counted_by_queue(broker):
    queue = f"q{next(_numbers)}"
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(queue)
    for _ in range(4):
        channel.basic_publish("", queue, b"hello")
    first, _, _ = channel.basic_get(queue)
    channel.basic_nack(first.delivery_tag, requeue=True)
    again, _, _ = channel.basic_get(queue)
    assert again.redelivered
    channel.basic_ack(again.delivery_tag)
    rejected, _, _ = channel.basic_get(queue)
    channel.basic_reject(rejected.delivery_tag, requeue=False)
    channel.basic_get(queue)
    channel.queue_declare(queue, passive=True)  # all before it was handled
    found = scrape(broker.metrics_url)
    counted = {
        name: found.value(f"strom_queue_messages_{name}", queue=queue, vhost="/")
        for name in (
            "ready",
            "unacked",
            "published_total",
            "delivered_total",
            "redelivered_total",
            "acked_total",
            "dropped_total",
        )
    }
    assert counted == {
        "ready": 1,
        "unacked": 1,
        "published_total": 4,
        "delivered_total": 4,
        "redelivered_total": 1,
        "acked_total": 1,
        "dropped_total": 1,
    }
    assert found.value("strom_amqp_channels") >= 1
    assert found.value("strom_connections", listener="amqp") >= 1
    connection.close()


def test_http_requests_are_counted_by_resource_and_not_by_path(broker):
    address = urlsplit(broker.management_url).netloc
    for path in ("/api/queues/%2F/nothing", "/api/queues/%2F/nothing-either", "/api/queues"):
        with contextlib.closing(http.client.HTTPConnection(address, timeout=20)) as client:
            client.request("GET", path, headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
            client.getresponse().read()
    scrape(broker.metrics_url)
    found = scrape(broker.metrics_url)
    labels = {"server": "management", "route": "/api/queues", "method": "GET"}
    assert found.value("strom_http_requests_total", **labels, status="4xx") == 2
    assert found.value("strom_http_requests_total", **labels, status="2xx") == 1
    assert found.value("strom_http_request_seconds_total", **labels, status="2xx") > 0
    labels = {"server": "metrics", "route": "/metrics", "method": "GET", "status": "2xx"}
    assert found.value("strom_http_requests_total", **labels) >= 1
    assert not any("nothing" in one for sample in found.samples for one in sample.labels.values())


def test_a_request_for_another_host_name_is_refused(broker):
    address = urlsplit(broker.metrics_url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    connection.request("GET", "/metrics", headers={"Host": "attacker.example"})
    assert connection.getresponse().status in (400, 403, 421)
    connection.close()


def test_other_paths_of_the_port_are_not_found(broker):
    address = urlsplit(broker.metrics_url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    connection.request("GET", "/")
    assert connection.getresponse().status == 404
    connection.close()


def test_a_port_that_is_in_use_is_reported_with_what_to_do(tmp_path):
    async def start(port: int) -> None:
        settings = {"port": "0", "amqp.port": "0", "metrics.port": str(port)}
        await Node(BrokerSettings(data=str(tmp_path)).override(settings)).start()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"{port}.*metrics\.port"):
            asyncio.run(start(port))


def test_no_port_serves_metrics_unless_asked_for():
    with LocalBroker() as running, pytest.raises(RuntimeError, match=r"metrics\.port"):
        running.metrics_url  # noqa: B018


def test_a_slow_turn_of_the_event_loop_is_counted(tmp_path):
    async def test() -> None:
        settings = {"port": "0", "amqp.port": "0", "metrics.port": "-1"}
        node = Node(BrokerSettings(data=str(tmp_path)).override(settings))
        url = (await node.start()).metrics_url
        try:
            before = await asyncio.to_thread(scrape, url)
            time.sleep(0.2)  # noqa: ASYNC251 - occupies the node's event loop
            after = await asyncio.to_thread(scrape, url)
        finally:
            await node.stop()
        name = "strom_loop_slow_turns_total"
        assert after.value(name) > before.value(name)
        assert after.value("strom_loop_longest_turn_seconds") > 0.15

    asyncio.run(test())


def test_a_scrape_outlives_topics_that_are_deleted_meanwhile(broker):
    """Rows are read between turns of the loop: what they are read of may be gone by then."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    names = [f"gone{number}" for number in range(20)]
    for future in admin.create_topics([NewTopic(name, 20) for name in names]).values():
        future.result()
    deleting = admin.delete_topics(names)
    while not all(future.done() for future in deleting.values()):
        scrape(broker.metrics_url)
        time.sleep(0.01)
    found = scrape(broker.metrics_url)
    assert not [
        value for name in names for value in found.values("strom_topic_partitions", topic=name)
    ]


def test_connections_of_the_metrics_port_leave_clients_their_descriptors(broker):
    address = urlsplit(broker.metrics_url)
    with contextlib.ExitStack() as opened:
        clients = [
            opened.enter_context(
                socket.create_connection((address.hostname, address.port), timeout=10)
            )
            for _ in range(METRICS_CONNECTIONS + 5)
        ]
        closed: set[socket.socket] = set()  # those that have not sent a request make room
        while len(closed) < 5:
            ended, _, _ = select.select(set(clients) - closed, [], [], 10)
            assert ended, f"only {len(closed)} were closed"
            closed |= set(ended)
