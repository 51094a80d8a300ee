"""Settling deliveries, slice by slice."""

import asyncio

import pytest

from strom.server.amqp import settling
from strom.server.amqp.settling import Settling
from tests.server.amqp.in_process import clients


def run(test, monkeypatch, messages=5, **arguments):
    monkeypatch.setattr(settling, "SLICE", 2)
    monkeypatch.setattr(settling, "REJECT_SLICE", 1)

    async def with_channel():
        async with clients() as it:
            await it.world.declare("q", **arguments)
            queue = it.world.queue("q")
            await it.world.publish("q", *(b"%d" % number for number in range(messages)))
            channel = await it.take(queue, messages)
            channel.takes = False  # what is requeued is not delivered again
            channel.out.can_deliver = False
            await test(it, channel, queue)

    asyncio.run(asyncio.wait_for(with_channel(), 10))


def test_each_step_acknowledges_one_slice_in_the_order_of_delivery(monkeypatch):
    async def test(it, channel, queue):
        work = Settling(channel, channel.unacked, 5, None)
        assert work.slices == 2.5
        assert work.step()
        assert (list(channel.unacked), len(queue.unacked)) == ([3, 4, 5], 3)
        assert work.step()
        assert not work.done.done()
        assert not work.step()
        assert work.done.done()
        assert (channel.unacked, queue.unacked, queue.waiting) == ({}, {}, 0)

    run(test, monkeypatch)


def test_it_stops_at_the_last_tag(monkeypatch):
    async def test(it, channel, queue):
        work = Settling(channel, channel.unacked, 3, None)
        assert work.slices == 1.5
        while work.step():
            pass
        assert list(channel.unacked) == [4, 5]

    run(test, monkeypatch)


def test_a_queue_pauses_until_all_its_messages_are_requeued(monkeypatch):
    async def test(it, channel, queue):
        work = Settling(channel, channel.unacked, 5, True)
        assert queue.is_paused, "at once, before the first slice"
        assert work.step()
        assert (queue.is_paused, queue.waiting) == (True, 2)
        while work.step():
            pass
        assert (queue.is_paused, queue.waiting) == (False, 5)

    run(test, monkeypatch)


def test_acknowledging_and_rejecting_pause_nothing(monkeypatch):
    async def test(it, channel, queue):
        for requeue in (None, False):
            Settling(channel, channel.unacked, 5, requeue)
            assert not queue.is_paused

    run(test, monkeypatch)


@pytest.mark.parametrize(
    ("requeue", "arguments", "slices"),
    [
        (False, {}, 5),
        (True, {}, 2.5),
        (True, {"x_delivery_limit": 3}, 5),
        (True, {"x_max_length": 9}, 5),
        (True, {"x_max_length": 9, "x_overflow": "reject-publish"}, 2.5),
    ],
)
def test_slices_are_small_where_messages_may_become_dead_letters(
    requeue, arguments, slices, monkeypatch
):
    async def test(it, channel, queue):
        work = Settling(channel, channel.unacked, 5, requeue)
        assert work.slices == slices
        while work.step():
            pass

    run(test, monkeypatch, **arguments)


def test_the_rest_is_settled_by_the_successor_after_a_close(monkeypatch):
    async def test(it, channel, queue):
        acks = Settling(channel, channel.unacked, 3, None)
        rest = acks.successor = Settling(channel, channel.unacked, 5, True)
        while acks.step():
            pass
        assert (acks.done.done(), rest.done.done()) == (True, True)
        assert (channel.unacked, queue.waiting) == ({}, 2)

    run(test, monkeypatch)


def test_a_deleted_queue_is_left_alone(monkeypatch):
    async def test(it, channel, queue):
        queue.deleted = True
        work = Settling(channel, channel.unacked, 5, None)
        while work.step():
            pass
        assert (channel.unacked, len(queue.unacked)) == ({}, 5)

    run(test, monkeypatch)


def test_consumers_get_room_for_more(monkeypatch):
    async def test(it, channel, queue):
        (consumer,) = channel.consumers.values()
        assert consumer.unacked == 5
        Settling(channel, channel.unacked, 5, None).step()
        assert consumer.unacked == 3

    run(test, monkeypatch)
