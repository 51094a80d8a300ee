"""A channel that keeps a message for too long is closed, and the message goes back."""

import asyncio

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from strom.model.broker_settings import BrokerSettings
from strom.server.amqp.ack_timeout import DeliveryAges, close_overdue, interval_ms
from strom.server.amqp.listener import AmqpListener
from strom.server.process_limits import ConnectionSlots
from strom.testing import LocalBroker
from tests.server.amqp.in_process import clients

TIMEOUT_MS = 1000


def run(test):
    asyncio.run(asyncio.wait_for(test(), 60))


def test_ages_count_from_the_first_look_after_a_delivery():
    ages = DeliveryAges()
    assert ages.oldest_ms({}, 1, 0) == 0
    assert ages.oldest_ms({1: None, 2: None}, 3, 100) == 0
    assert ages.oldest_ms({1: None, 2: None, 3: None}, 4, 200) == 100
    assert ages.oldest_ms({3: None}, 4, 300) == 100  # the first two were acknowledged
    assert ages.oldest_ms({}, 4, 400) == 0
    assert ages.oldest_ms({4: None}, 5, 500) == 0
    assert ages.oldest_ms({4: None}, 5, 900) == 400


def test_notes_do_not_pile_up_while_nothing_is_delivered():
    ages = DeliveryAges()
    for now_ms in range(1000):
        ages.oldest_ms({1: None}, 2, now_ms)
    assert len(ages._marks) == 1


@pytest.mark.parametrize(
    ("timeout_ms", "expected"), [(30 * 60_000, 60_000), (1000, 250), (1, 1), (0, 60_000)]
)
def test_looks_are_as_often_as_the_timeout_needs(timeout_ms, expected):
    assert interval_ms(timeout_ms) == expected


@pytest.mark.parametrize(
    ("own", "timeout_ms", "closes_after_ms"),
    [
        ({}, TIMEOUT_MS, TIMEOUT_MS),
        ({}, 0, None),
        ({}, -1, None),
        ({"x_consumer_timeout": 500}, TIMEOUT_MS, 500),
        ({"x_consumer_timeout": 500}, 0, 500),
        ({"x_consumer_timeout": 0}, TIMEOUT_MS, None),
    ],
)
def test_the_channel_that_keeps_a_message_is_closed_and_no_other(own, timeout_ms, closes_after_ms):
    async def test():
        async with clients() as it:
            await it.world.declare("q", **own)
            await it.world.declare("r", **own)
            queue, other = it.world.queue("q"), it.world.queue("r")
            connection = it.connect()
            slow, quick = it.channel(connection), it.channel(connection)
            it.consume(slow, queue)
            it.consume(quick, other)
            it.world.publish("q", b"kept")
            closed_after = None
            for now_ms in range(0, 3000, 100):
                it.world.publish("r", b"m")
                close_overdue([connection], timeout_ms, now_ms)
                assert quick.acknowledge(0, multiple=True) is None
                if slow.closing:
                    closed_after = now_ms
                    break
            assert closed_after == closes_after_ms
            assert not quick.closing
            assert queue.waiting == (0 if closes_after_ms is None else 1)

    run(test)


def test_a_clock_that_is_set_forward_closes_no_channel():
    async def test():
        async with clients() as it:
            await it.world.declare("q")
            channel = it.channel()
            it.consume(channel, it.world.queue("q"))
            it.world.publish("q", b"m")
            listener = AmqpListener(BrokerSettings(), it.world.hub, ConnectionSlots(10))
            listener.connections.update(it.connections)
            for _ in range(2):
                listener.close_overdue_channels()
                await it.world.hub.slices.finish()
                it.world.clock.advance(24 * 3600 * 1000)
            assert not channel.closing

    run(test)


def test_a_client_gets_the_reason_and_goes_on_with_another_channel():
    settings = {"amqp.consumer.timeout.ms": "200"}
    with LocalBroker(queues=True, settings=settings) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"m")
        channel.basic_consume("q", lambda *_: None)
        with pytest.raises(ChannelClosedByBroker) as closed:
            channel.start_consuming()
        assert closed.value.reply_code == 406
        assert closed.value.reply_text == (
            "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value "
            "used: 200 ms. This timeout value can be configured, see consumers doc guide to learn more"
        )
        method, _, body = connection.channel().basic_get("q", auto_ack=True)
        assert (body, method.redelivered) == (b"m", True)
        connection.close()
