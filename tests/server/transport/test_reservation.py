"""What one connection holds of the memory, without sockets."""

import asyncio

from strom.server.memory import NetworkMemory
from strom.server.transport.reservation import Reservation

LARGE = 500
"""Of a memory of 1000 bytes; up to 7 bytes are small."""


def run(test):
    async def with_memory():
        memory, granted = NetworkMemory(1000), []
        loop = asyncio.get_running_loop()

        def reserve(host):
            return Reservation(memory.pool_of, host, loop, lambda: granted.append(host))

        await test(memory, reserve, granted)
        assert (memory.in_use, memory.is_wanted) == (0, False)

    asyncio.run(with_memory())


def test_it_grows_within_a_pool_and_from_the_small_to_the_large_one():
    async def test(memory, reserve, granted):
        one = reserve("a")
        assert one.take(5)
        assert one.take(3)
        assert one.size == memory.pool_of(5).in_use == 5
        assert one.take(100)
        assert (memory.pool_of(5).in_use, memory.pool_of(100).in_use) == (0, 100)
        assert one.take(300)
        assert memory.in_use == 300
        one.reduce(100)
        assert (one.size, memory.in_use) == (200, 200)
        one.release()

    run(test)


def test_who_waits_holds_nothing_and_is_called_in_a_turn_of_its_own():
    async def test(memory, reserve, granted):
        first, second = reserve("a"), reserve("b")
        assert first.take(LARGE)
        assert second.take(5)
        assert not second.take(100)
        second.wait(100)
        assert (second.size, second.is_waiting, memory.in_use) == (0, True, LARGE)
        first.release()
        assert (second.size, second.is_waiting, granted) == (100, False, [])
        await asyncio.sleep(0)
        assert granted == ["b"]
        second.release()

    run(test)


def test_a_connection_that_closes_while_it_waits_leaves_nothing():
    async def test(memory, reserve, granted):
        first, second = reserve("a"), reserve("b")
        assert first.take(LARGE)
        second.wait(100)
        second.release()
        assert not memory.is_wanted
        second.wait(100)
        first.release()
        second.release()  # granted, but not called yet

    run(test)
