"""Many messages are settled in slices: others are served in between, and nothing is out of order."""

import asyncio

import pytest

from strom.broker.queues.slices import SLICE
from strom.queues.queue import EXPIRY_SLICE, Queue
from strom.server.amqp.handlers import basic_class
from strom.wire.amqp.methods import basic
from tests.broker.queues.test_power_loss_of_dead_letters import World
from tests.server.amqp.in_process import Clients, clients, connection_of, disconnect

MANY = 5 * SLICE + 7


def run(test):
    asyncio.run(asyncio.wait_for(test(), 60))


async def filled(it: Clients[World], count: int = MANY, **arguments: object) -> Queue:
    await it.world.declare("q", **arguments)
    for start in range(0, count, 500):
        bodies = [str(number).encode() for number in range(start, min(start + 500, count))]
        assert await it.world.publish("q", *bodies)
    return it.world.queue("q")


async def watch(queue: Queue, most: int) -> int:
    """Let all come back; how many turns of the event loop it took. No turn returns more than `most`."""
    turns, total = 0, queue.waiting + len(queue.unacked)
    while queue.unacked:
        before = queue.waiting
        await asyncio.sleep(0)
        turns += 1
        assert queue.waiting - before <= most
        assert queue.waiting + len(queue.unacked) == total
    return turns


def lose_connection(channel):
    disconnect(channel)


def leave_channel(channel):
    channel.leave()


def nack_all(channel):
    connection_of(channel)._run(channel.refuse(0, multiple=True, requeue=True))


def recover(channel):
    connection_of(channel)._run(channel.recover())


@pytest.mark.parametrize("leave", [lose_connection, leave_channel])
def test_messages_of_a_client_that_is_gone_come_back_in_slices(leave):
    async def test():
        async with clients() as it:
            queue = await filled(it)
            channel = await it.take(queue, MANY)
            leave(channel)
            assert await watch(queue, SLICE) >= 5
            assert it.world.bodies("q") == [str(number).encode() for number in range(MANY)]

    run(test)


@pytest.mark.parametrize("give_back", [nack_all, recover])
def test_a_client_is_not_read_while_its_messages_come_back(give_back):
    async def test():
        async with clients() as it:
            queue = await filled(it)
            channel = await it.take(queue, MANY)
            for consumer in channel.consumers.values():
                queue.consumers.remove(consumer)
            give_back(channel)
            assert connection_of(channel)._busy is not None
            assert await watch(queue, SLICE) >= 5
            for _ in range(3):
                await asyncio.sleep(0)
            assert connection_of(channel)._busy is None

    run(test)


def test_what_is_delivered_after_the_request_is_not_settled_by_it():
    async def test():
        async with clients() as it:
            queue = await filled(it)
            await it.world.declare("r")
            channel = await it.take(queue, MANY)
            for consumer in channel.consumers.values():
                queue.consumers.remove(consumer)
            it.consume(channel, it.world.queue("r"))
            nack_all(channel)
            it.world.publish("r", b"later")
            (later,) = [one for one in channel.unacked.values() if one.queue.name == "r"]
            assert await watch(it.world.queue("q"), SLICE) >= 5
            assert later.tag in channel.unacked

    run(test)


def test_what_came_back_is_delivered_before_what_waited():
    async def test():
        async with clients() as it:
            queue = await filled(it)
            dying = await it.take(queue, MANY - 10)
            other = it.channel()
            consumer = it.consume(other, queue, limit=5)
            assert consumer.unacked == 5
            disconnect(dying)
            while not queue.waiting > 5:
                await asyncio.sleep(0)
            other.settle(list(other.unacked.values()), None)
            other.unacked.clear()
            assert consumer.unacked == 0  # it gets nothing before all is back
            while not other.unacked:
                await asyncio.sleep(0)
            assert [one.position for one in other.unacked.values()] == [0, 1, 2, 3, 4]

    run(test)


def test_a_standby_consumer_gets_what_came_back_before_what_waited():
    async def test():
        async with clients() as it:
            queue = await filled(it, x_single_active_consumer=True)
            active = await it.take(queue, MANY - 10)
            standby = it.channel()
            assert it.consume(standby, queue, limit=5).unacked == 0
            disconnect(active)
            while not standby.unacked:
                await asyncio.sleep(0)
            assert [one.position for one in standby.unacked.values()] == [0, 1, 2, 3, 4]

    run(test)


def test_what_came_back_is_delivered_first_though_other_work_is_done_before_it():
    async def test():
        async with clients() as it:
            queue = await filled(it, 10)
            other = await it.take(queue, 5)
            await it.world.declare("busy")
            for _ in range(3 * SLICE):
                it.world.publish("busy", b"")
            busy = await it.take(it.world.queue("busy"), 3 * SLICE)
            disconnect(busy)
            it.services.queues.slices._done_at_once = 1.0
            disconnect(other)
            late = it.channel()
            it.consume(late, queue, limit=1)
            while not late.unacked:
                await asyncio.sleep(0)
            assert [one.position for one in late.unacked.values()] == [0]

    run(test)


def test_a_get_waits_until_all_is_back():
    async def test():
        async with clients() as it:
            queue = await filled(it)
            dying = await it.take(queue, MANY - 10)
            disconnect(dying)
            channel = it.channel()
            await basic_class.get(channel, basic.Get(0, "q", False))
            assert [one.position for one in channel.unacked.values()] == [0]

    run(test)


def test_two_queues_of_one_channel_get_their_own():
    async def test():
        async with clients() as it:
            await it.world.declare("q")
            await it.world.declare("r")
            for _ in range(2 * SLICE):
                it.world.publish("q", b"q")
                it.world.publish("r", b"r")
            channel = it.channel()
            one, other = it.world.queue("q"), it.world.queue("r")
            it.consume(channel, one)
            it.consume(channel, other)
            while len(channel.unacked) < 4 * SLICE:
                await asyncio.sleep(0)
            disconnect(channel)
            while one.unacked or other.unacked:
                await asyncio.sleep(0)
            assert set(it.world.bodies("q")) == {b"q"}
            assert set(it.world.bodies("r")) == {b"r"}

    run(test)


def test_acknowledging_many_is_done_in_slices_and_counts_though_the_client_leaves():
    async def test():
        async with clients() as it:
            queue = await filled(it)
            channel = await it.take(queue, MANY)
            *_, third_last, _, _ = channel.unacked
            connection_of(channel)._run(channel.acknowledge(third_last, multiple=True))
            before = len(queue.unacked)
            await asyncio.sleep(0)
            assert before - len(queue.unacked) <= SLICE
            disconnect(channel)
            while queue.unacked:
                await asyncio.sleep(0)
            assert it.world.bodies("q") == [str(MANY - 2).encode(), str(MANY - 1).encode()]

    run(test)


def test_a_few_are_acknowledged_at_once_however_many_are_out():
    async def test():
        async with clients() as it:
            queue = await filled(it)
            channel = await it.take(queue, MANY)
            assert channel.acknowledge(10, multiple=True) is None
            assert len(queue.unacked) == MANY - 10

    run(test)


def test_rejecting_many_makes_few_dead_letters_in_one_turn():
    async def test():
        async with clients() as it:
            await it.world.declare("last")
            to_last = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "last"}
            count = 5 * EXPIRY_SLICE
            queue = await filled(it, count, **to_last)
            channel = await it.take(queue, count)
            last = it.world.queue("last")
            connection_of(channel)._run(channel.refuse(0, multiple=True, requeue=False))
            while last.waiting < count:
                before = last.waiting
                await asyncio.sleep(0)
                assert last.waiting - before <= EXPIRY_SLICE
            assert it.world.bodies("last") == [str(number).encode() for number in range(count)]

    run(test)


def test_what_comes_back_to_a_full_queue_makes_few_dead_letters_in_one_turn():
    async def test():
        async with clients() as it:
            await it.world.declare("last")
            to_last = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "last"}
            await it.world.declare("q", x_max_length=1, **to_last)
            count, last = 5 * EXPIRY_SLICE, it.world.queue("last")
            channel = it.channel()
            it.consume(channel, it.world.queue("q"))
            for number in range(count):
                it.world.publish("q", b"%d" % number)
            disconnect(channel)
            while last.waiting < count - 1:
                before = last.waiting
                await asyncio.sleep(0)
                assert last.waiting - before <= EXPIRY_SLICE
            assert it.world.bodies("q") == [b"%d" % (count - 1)]

    run(test)


def test_a_queue_that_is_deleted_meanwhile_takes_its_messages_along():
    async def test():
        async with clients() as it:
            queue = await filled(it)
            channel = await it.take(queue, MANY)
            disconnect(channel)
            await it.services.declarations.delete_queue(it.world.vhost, queue)
            for _ in range(10):
                await asyncio.sleep(0)
            assert "q" not in it.world.vhost.queues

    run(test)


def test_what_did_not_come_back_before_a_purge_does_so_after_it():
    async def test():
        async with clients() as it:
            queue = await filled(it)
            channel = await it.take(queue, MANY)
            disconnect(channel)
            while not queue.waiting:
                await asyncio.sleep(0)
            purged = queue.purge()
            while queue.unacked:
                await asyncio.sleep(0)
            assert purged > 0
            assert queue.waiting == MANY - purged

    run(test)
