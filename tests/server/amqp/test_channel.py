"""A channel without sockets: deliveries, prefetch limits, acknowledgements, and its end."""

import asyncio

import pytest

from strom.queues.errors import QueueError, Reason
from strom.server.amqp.handlers import basic_class
from strom.wire.amqp.methods import basic
from tests.server.amqp.in_process import clients


def run(test, messages=3):
    async def with_queue():
        async with clients() as it:
            await it.world.declare("q")
            queue = it.world.queue("q")
            if messages:
                await it.world.publish("q", *(b"%d" % number for number in range(messages)))
            await test(it, queue)

    asyncio.run(asyncio.wait_for(with_queue(), 10))


def test_deliveries_have_ascending_tags():
    async def test(it, queue):
        channel = it.channel()
        it.consume(channel, queue)
        assert [(one.tag, one.position) for one in channel.unacked.values()] == [
            (1, 0),
            (2, 1),
            (3, 2),
        ]

    run(test)


def test_a_consumer_gets_no_more_than_its_prefetch_count():
    async def test(it, queue):
        channel = it.channel()
        consumer = it.consume(channel, queue, limit=2)
        assert (list(channel.unacked), consumer.unacked, queue.waiting) == ([1, 2], 2, 1)
        channel.acknowledge(1, False)
        assert (list(channel.unacked), consumer.unacked, queue.waiting) == ([2, 3], 2, 0)

    run(test)


def test_the_prefetch_count_of_a_channel_holds_for_all_its_consumers():
    async def test(it, queue):
        channel = it.channel()
        channel.channel_prefetch = 1
        it.consume(channel, queue)
        it.consume(channel, queue)
        assert (list(channel.unacked), channel.takes) == ([1], False)
        channel.acknowledge(1, False)
        assert list(channel.unacked) == [2]

    run(test)


def test_a_channel_that_cannot_deliver_gets_nothing_until_it_can():
    async def test(it, queue):
        channel = it.channel()
        channel.out.can_deliver = False
        channel.update()
        it.consume(channel, queue)
        assert channel.unacked == {}
        channel.out.can_deliver = True
        channel.update()
        assert len(channel.unacked) == 3

    run(test)


@pytest.mark.parametrize(("tag", "left"), [(2, [3]), (0, [])])
def test_multiple_acknowledges_up_to_a_tag_or_all(tag, left):
    async def test(it, queue):
        channel = it.channel()
        it.consume(channel, queue)
        assert channel.acknowledge(tag, True) is None
        assert list(channel.unacked) == left
        assert len(queue.unacked) == len(left)

    run(test)


@pytest.mark.parametrize("multiple", [False, True])
def test_an_unknown_tag_is_an_error(multiple):
    async def test(it, queue):
        channel = it.channel()
        it.consume(channel, queue)
        channel.acknowledge(1, False)
        for settle in (
            lambda: channel.acknowledge(1, multiple),
            lambda: channel.refuse(1, multiple=multiple, requeue=True),
            lambda: channel.take(1, multiple),
        ):
            with pytest.raises(QueueError, match="unknown delivery tag 1") as refused:
                settle()
            assert refused.value.reason is Reason.PRECONDITION_FAILED
        assert list(channel.unacked) == [2, 3]

    run(test)


def test_refused_messages_are_requeued_or_discarded():
    async def test(it, queue):
        channel = it.channel()
        for _ in range(2):
            assert basic_class.get(channel, basic.Get(queue="q")) is None
        assert channel.refuse(1, multiple=False, requeue=True) is None
        assert channel.refuse(2, multiple=False, requeue=False) is None
        assert (channel.unacked, queue.waiting) == ({}, 2)
        assert it.world.bodies("q") == [b"0", b"2"]

    run(test)


def test_what_was_taken_and_restored_is_in_the_order_of_delivery_again():
    async def test(it, queue):
        channel = it.channel()
        it.consume(channel, queue)
        taken = channel.take(2, multiple=True)
        assert list(channel.unacked) == [3]
        channel.restore(taken)
        assert list(channel.unacked) == [1, 2, 3]

    run(test)


def test_a_channel_that_is_closed_returns_its_messages_and_removes_its_consumers():
    async def test(it, queue):
        channel = it.channel()
        it.consume(channel, queue)
        channel.leave()
        assert (queue.waiting, queue.unacked, len(queue.consumers)) == (3, {}, 0)
        assert (channel.left, channel.consumers, channel.unacked) == (True, {}, {})
        assert it.world.bodies("q") == [b"0", b"1", b"2"]

    run(test)


def test_the_client_is_notified_when_the_queue_of_a_consumer_is_deleted():
    async def test(it, queue):
        channel = it.channel()
        consumer = it.consume(channel, queue)
        sent: list[object] = []
        channel.send = sent.append
        channel.consumer_cancelled(consumer)
        channel.consumer_cancelled(consumer)
        assert sent == [basic.Cancel(consumer.tag, True)]
        assert channel.consumers == {}

    run(test, messages=0)


def test_a_response_is_left_out_if_the_client_does_not_wait():
    async def test(it, queue):
        channel = it.channel()
        before = len(channel.out.frames)
        channel.respond(basic.Cancel("c", True), basic.CancelOk("c"))
        assert len(channel.out.frames) == before
        channel.respond(basic.Cancel("c", False), basic.CancelOk("c"))
        assert len(channel.out.frames) == before + 1

    run(test, messages=0)
