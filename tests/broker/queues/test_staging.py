"""The messages of a transaction, before any queue sees them."""

import asyncio

import pytest

from strom.broker.queues.message_properties import make_message
from strom.broker.queues.staging import StagedMessages
from strom.queues.delays import DELAY
from strom.queues.errors import QueueError
from strom.wire.amqp.content import BasicProperties, encode_properties
from tests.broker.queue_world import queue_world


def run(test):
    async def with_world():
        async with queue_world() as world:
            await test(world)

    asyncio.run(asyncio.wait_for(with_world(), 10))


def stage(world, *messages):
    """Staged messages, and what was reported of them."""
    reported: list[bool] = []
    staged = StagedMessages(world.hub, world.vhost, messages)
    staged.write(reported.append)
    return staged, reported


def held(world):
    """How many messages are in the log of transactions."""
    store = world.hub.delayed_of("/").store
    return store.log.progress.acknowledged.count_live_before(store.next_position)


def test_nothing_is_delivered_before_the_release():
    async def test(world):
        queue = await world.queue("q")
        staged, reported = stage(world, world.message(b"a", "q"), world.message(b"b", "q"))
        assert (queue.waiting, reported, held(world)) == (0, [], 2)
        await world.until(lambda: reported, [True])
        assert queue.waiting == 0
        assert staged.release() == [True, True]
        assert queue.waiting == 2
        await world.settled()
        assert held(world) == 0, "they are durable in the queue"
        assert world.waiting("q") == [b"a", b"b"]

    run(test)


def test_what_is_withdrawn_is_in_no_log_and_reports_nothing():
    async def test(world):
        queue = await world.queue("q")
        staged, reported = stage(world, world.message(b"a", "q"))
        staged.withdraw()
        await world.settled()
        assert (held(world), queue.waiting, reported) == (0, 0, [])

    run(test)


def test_messages_that_need_no_disk_are_not_staged():
    async def test(world):
        queue = await world.queue("q")
        transient = encode_properties(BasicProperties(delivery_mode=1))
        staged, reported = stage(world, make_message("", "q", transient, b"a", 0))
        assert (reported, held(world)) == ([True], 0)
        assert staged.release() == [True]
        assert queue.waiting == 1

    run(test)


def test_unroutable_messages_are_reported_one_by_one():
    async def test(world):
        await world.queue("q")
        staged, _ = stage(world, world.message(b"a", "q"), world.message(b"b", "missing"))
        await world.settled()
        assert staged.release() == [True, False]

    run(test)


def test_a_full_queue_refuses_the_whole_transaction():
    async def test(world):
        await world.queue("q", x_max_length=1, x_overflow="reject-publish")
        messages = [world.message(b"a", "q"), world.message(b"b", "q")]
        StagedMessages(world.hub, world.vhost, messages[:1])
        with pytest.raises(QueueError, match="is full and rejects 2 more"):
            StagedMessages(world.hub, world.vhost, messages)

    run(test)


def test_a_topic_that_refuses_a_message_refuses_the_whole_transaction():
    async def test(world):
        await world.topic("t", max_message_bytes="500")
        await world.exchange("x", x_strom_to_topic="t")
        StagedMessages(world.hub, world.vhost, [world.message(b"small", exchange="x")])
        with pytest.raises(QueueError, match="topic 't' of exchange 'x' refuses a message"):
            StagedMessages(world.hub, world.vhost, [world.message(bytes(1000), exchange="x")])

    run(test)


def test_an_unknown_exchange_refuses_the_whole_transaction():
    async def test(world):
        with pytest.raises(QueueError, match="no exchange 'missing'"):
            StagedMessages(world.hub, world.vhost, [world.message(b"a", exchange="missing")])

    run(test)


def test_a_delayed_message_stays_until_it_is_due():
    async def test(world):
        queue = await world.queue("q", bound_to="amq.direct", key="k")
        message = world.message(b"a", "k", "amq.direct", {DELAY: 5000})
        staged, _ = stage(world, message)
        await world.settled()
        assert staged.release() == [True]
        await world.settled()
        assert (queue.waiting, held(world), len(world.hub.delayed_of("/"))) == (0, 1, 1)

    run(test)
