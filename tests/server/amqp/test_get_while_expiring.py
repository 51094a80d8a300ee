"""basic.get finds the first message that has not expired, however many before it have."""

import asyncio

from strom.queues.queue import EXPIRY_SLICE
from strom.server.amqp.handlers import basic_class
from strom.wire.amqp.methods import basic
from tests.server.amqp.in_process import clients, disconnect


def test_a_get_waits_until_all_that_expired_is_dropped():
    async def test():
        async with clients() as it:
            await it.world.declare("q", x_message_ttl=1000)
            expired = 5 * EXPIRY_SLICE
            for _ in range(expired):
                it.world.publish("q", b"old")
            it.world.clock.advance(1001)
            channel = it.channel()
            it.world.publish("q", b"new")
            queue = it.world.queue("q")
            assert queue.is_paused
            await basic_class.get(channel, basic.Get(0, "q", False))
            assert queue.waiting == 0
            assert [one.position for one in channel.unacked.values()] == [expired]

    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_get_of_a_client_that_is_gone_takes_no_message():
    async def test():
        async with clients() as it:
            await it.world.declare("q", x_message_ttl=1000)
            for _ in range(5 * EXPIRY_SLICE):
                it.world.publish("q", b"old")
            it.world.clock.advance(1001)
            it.world.publish("q", b"new")
            channel = it.channel()
            waiting = asyncio.ensure_future(basic_class.get(channel, basic.Get(0, "q", False)))
            disconnect(channel)
            await waiting
            queue = it.world.queue("q")
            while queue.is_paused:
                await asyncio.sleep(0)
            assert (queue.waiting, queue.unacked) == (1, {})

    asyncio.run(asyncio.wait_for(test(), 30))
