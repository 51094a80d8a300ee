"""Delayed messages: on any exchange, in the order of their times, through restarts."""

import time

import pika
import pytest

from strom.testing import LocalBroker
from tests.conformance_amqp.asking import bodies, closes_channel, count, eventually


def delayed(ms, **more):
    return pika.BasicProperties(headers={"x-delay": ms, **more})


def test_a_delayed_message_comes_when_its_time_has_come(channel):
    channel.queue_declare("q")
    began = time.monotonic()
    channel.basic_publish("", "q", b"later", delayed(400, mine=1))
    channel.basic_publish("", "q", b"now")
    assert count(channel, "q") == 1
    eventually(lambda: count(channel, "q"), 2)
    assert time.monotonic() - began >= 0.4
    channel.basic_get("q", auto_ack=True)
    _, properties, body = channel.basic_get("q", auto_ack=True)
    assert (body, properties.headers) == (b"later", {"x-delay": -400, "mine": 1})


def test_messages_come_in_the_order_of_their_times(channel):
    channel.queue_declare("q")
    unconfirmed = channel.connection.channel()  # a confirm may take longer than the shortest delay
    for ms in (300, 100, 200):
        unconfirmed.basic_publish("", "q", str(ms).encode(), delayed(ms))
    eventually(lambda: count(channel, "q"), 3)
    assert bodies(channel, "q") == [b"100", b"200", b"300"]


def test_the_plugins_exchange_type_is_known(channel):
    channel.exchange_declare("x", "x-delayed-message", arguments={"x-delayed-type": "topic"})
    channel.queue_declare("q")
    channel.queue_bind("q", "x", "a.*")
    channel.basic_publish("x", "a.b", b"m", delayed(50))
    eventually(lambda: bodies(channel, "q"), [b"m"])


def test_the_plugins_exchange_type_needs_a_type_to_route_by(channel):
    with closes_channel(406):
        channel.exchange_declare("x", "x-delayed-message")


@pytest.mark.parametrize("delay", ["soon", 10**17])
def test_a_delay_that_is_no_time_is_refused(channel, delay):
    channel.queue_declare("q")
    with closes_channel(406):
        channel.basic_publish("", "q", b"m", delayed(delay))


def test_a_restart_does_not_lose_the_wait(tmp_path):
    def connected(broker):
        return pika.BlockingConnection(pika.URLParameters(broker.amqp_url))

    with LocalBroker(queues=True, data=str(tmp_path)) as broker, connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"soon", delayed(700))
        channel.basic_publish("", "q", b"much later", delayed(10**9))
    with LocalBroker(queues=True, data=str(tmp_path)) as broker, connected(broker) as connection:
        channel = connection.channel()
        eventually(lambda: bodies(channel, "q"), [b"soon"])
    with LocalBroker(queues=True, data=str(tmp_path)) as broker, connected(broker) as connection:
        time.sleep(0.2)
        assert bodies(connection.channel(), "q") == []
