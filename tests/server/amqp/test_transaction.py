"""A transaction on a channel, without sockets."""

import asyncio

from strom.server.amqp.handlers import basic_class
from strom.server.amqp.transaction import Transaction
from strom.wire.amqp.content import BasicProperties, encode_properties
from strom.wire.amqp.methods import basic
from tests.broker.queue_world import queue_world
from tests.server.amqp.in_process import Clients

PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))


def run(test):
    async def with_transaction():
        async with queue_world() as world:
            await world.queue("q")
            await world.queue("work")
            for body in (b"1", b"2"):
                world.publish(body, "work")
            await world.settled()
            channel = Clients(world).channel()
            channel.publisher.transaction = Transaction()
            for _ in range(2):
                assert basic_class.get(channel, basic.Get(queue="work")) is None
            await test(world, channel, channel.publisher.transaction)

    asyncio.run(asyncio.wait_for(with_transaction(), 10))


def publish(channel, body, key="q", mandatory=False):
    method = basic.Publish(exchange="", routing_key=key, mandatory=mandatory)
    channel.publisher.publish(method, PERSISTENT, body)


async def committed(world, channel, transaction):
    done = transaction.commit(channel)
    await world.until(done.done)
    return done.result()


def test_nothing_is_applied_before_the_commit():
    async def test(world, channel, transaction):
        publish(channel, b"m")
        channel.acknowledge(1, False)
        assert world.vhost.queues["q"].waiting == 0
        assert len(world.vhost.queues["work"].unacked) == 2
        assert list(channel.unacked) == [2]
        assert await committed(world, channel, transaction)
        assert world.waiting("q") == [b"m"]
        assert len(world.vhost.queues["work"].unacked) == 1
        assert (transaction.published, transaction.settled) == ([], [])

    run(test)


def test_messages_are_acknowledged_requeued_and_rejected_with_the_commit():
    async def test(world, channel, transaction):
        channel.refuse(1, multiple=False, requeue=False)
        channel.refuse(2, multiple=False, requeue=True)
        assert await committed(world, channel, transaction)
        assert world.waiting("work") == [b"2"]

    run(test)


def test_a_rollback_forgets_what_was_published_and_settled():
    async def test(world, channel, transaction):
        publish(channel, b"m")
        channel.acknowledge(2, True)
        assert channel.unacked == {}
        transaction.rollback(channel)
        assert list(channel.unacked) == [1, 2]
        assert await committed(world, channel, transaction)
        assert world.waiting("q") == []

    run(test)


def test_a_rollback_during_the_commit_applies_nothing():
    async def test(world, channel, transaction):
        publish(channel, b"m")
        channel.acknowledge(1, False)
        done = transaction.commit(channel)
        transaction.rollback(channel)
        assert done.result() is False
        await world.settled()
        assert (world.waiting("q"), list(channel.unacked)) == ([], [1, 2])

    run(test)


def test_unroutable_mandatory_messages_are_returned_with_the_commit():
    async def test(world, channel, transaction):
        returned = []
        channel.publisher.return_message = lambda message: returned.append(message.body)
        publish(channel, b"lost", "missing", mandatory=True)
        publish(channel, b"dropped", "missing")
        publish(channel, b"m", mandatory=True)
        assert returned == []
        assert await committed(world, channel, transaction)
        assert (returned, world.waiting("q")) == ([b"lost"], [b"m"])

    run(test)
