"""What a restart keeps: the topology, persistent messages, and what was acknowledged."""

import pika
import pytest

from strom.testing import LocalBroker
from tests.conformance_amqp.asking import PERSISTENT, bodies, closes_channel, count


@pytest.fixture
def run(tmp_path):
    """Runs steps, each on a broker with the same data: `run(step, step)`."""

    def run(*steps):
        for step in steps:
            with LocalBroker(queues=True, data=str(tmp_path)) as broker:
                connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
                channel = connection.channel()
                channel.confirm_delivery()
                step(channel)
                if connection.is_open:
                    connection.close()

    return run


def publish(channel, queue, *messages, properties=PERSISTENT):
    for body in messages:
        channel.basic_publish("", queue, body, properties)


def test_durable_queues_keep_persistent_messages_in_order(run):
    def before(channel):
        channel.queue_declare("q", durable=True)
        publish(channel, "q", b"1", b"2", b"3")

    def check(channel):
        assert bodies(channel, "q") == [b"1", b"2", b"3"]

    run(before, lambda channel: None, check)


def test_what_was_acknowledged_is_gone_and_what_was_delivered_says_so(run):
    def before(channel):
        channel.queue_declare("q", durable=True)
        publish(channel, "q", b"1", b"2", b"3", b"4")
        tags = [channel.basic_get("q")[0].delivery_tag for _ in range(3)]
        channel.basic_ack(tags[1])

    def after(channel):
        got = [channel.basic_get("q") for _ in range(3)]
        assert [body for _, _, body in got] == [b"1", b"3", b"4"]
        assert [method.redelivered for method, _, _ in got] == [True, True, False]
        assert channel.basic_get("q")[0] is None

    run(before, after)


def test_bindings_and_exchanges_come_back(run):
    def before(channel):
        channel.exchange_declare("x", "topic", durable=True)
        channel.exchange_declare("y", "headers", durable=True)
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "x", "a.*")
        channel.queue_bind("q", "y", arguments={"x-match": "any", "n": 1, "raw": b"\xff"})
        channel.exchange_bind("y", "x", "#")

    def after(channel):
        channel.basic_publish("x", "a.b", b"1")
        channel.basic_publish("x", "b", b"2", pika.BasicProperties(headers={"n": 1}))
        channel.basic_publish("x", "b", b"3")
        assert bodies(channel, "q") == [b"1", b"2"]
        channel.exchange_delete("x")

    def later(channel):
        channel.exchange_declare("y", passive=True)
        with closes_channel(404):
            channel.exchange_declare("x", passive=True)

    run(before, after, later)


def test_what_is_not_durable_does_not_come_back(run):
    def before(channel):
        channel.queue_declare("q")
        channel.queue_declare("mine", durable=True, exclusive=True)
        publish(channel, "q", *[bytes(100_000)] * 300)  # too much for the memory
        assert count(channel, "q") == 300

    def after(channel):
        for name in ("q", "mine"):
            with closes_channel(404):
                channel.connection.channel().queue_declare(name, passive=True)

    run(before, after)


def test_a_deleted_queue_stays_deleted_and_its_name_is_free(run):
    def before(channel):
        channel.queue_declare("q", durable=True)
        publish(channel, "q", b"old")
        channel.queue_delete("q")
        channel.queue_declare("q", durable=True)
        publish(channel, "q", b"new")

    def check(channel):
        assert bodies(channel, "q") == [b"new"]

    run(before, check)


def test_priorities_and_limits_hold_after_a_restart(run):
    def before(channel):
        channel.queue_declare("p", durable=True, arguments={"x-max-priority": 9})
        channel.queue_declare("l", durable=True, arguments={"x-max-length-bytes": 6})
        for priority in (1, 5, 3):
            properties = pika.BasicProperties(delivery_mode=2, priority=priority)
            channel.basic_publish("", "p", str(priority).encode(), properties)
        publish(channel, "l", b"aa", b"bb", b"cc")

    def after(channel):
        assert bodies(channel, "p") == [b"5", b"3", b"1"]
        publish(channel, "l", b"dd")
        assert bodies(channel, "l") == [b"bb", b"cc", b"dd"]

    run(before, after)


def test_delivery_counts_go_on(run):
    def before(channel):
        channel.queue_declare("q", durable=True, arguments={"x-delivery-limit": 1})
        publish(channel, "q", b"m")
        channel.basic_nack(channel.basic_get("q")[0].delivery_tag, requeue=True)
        assert count(channel, "q") == 1

    def after(channel):
        channel.basic_nack(channel.basic_get("q")[0].delivery_tag, requeue=True)
        assert count(channel, "q") == 0

    run(before, after)


def test_a_queue_worked_off_many_times_leaves_no_large_log(run, tmp_path):
    def work(channel):
        channel.queue_declare("q", durable=True)
        for _ in range(50):
            publish(channel, "q", *[b"m"] * 50)
            assert len(bodies(channel, "q")) == 50

    def check(channel):
        assert count(channel, "q") == 0
        publish(channel, "q", b"last")
        assert bodies(channel, "q") == [b"last"]

    run(work, check, check)
