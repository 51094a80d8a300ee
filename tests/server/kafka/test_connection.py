"""One connection, through real sockets, on both kinds of event loop."""

import asyncio
from functools import partial

import pytest

from strom.server.kafka.connection import MAX_IN_FLIGHT
from strom.server.kafka.receive_buffer import BASE_BYTES, SHRINK_AFTER, ReceiveBuffer
from tests.server.serving import LOOPS, framed, run, serving, until

MIB = 1024 * 1024

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_a_frame_is_answered_however_it_is_cut(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            for byte in framed(b"echo one") + framed(b"echo two"):
                await client.send_bytes(bytes([byte]))
                await asyncio.sleep(0)
            assert [await client.receive(), await client.receive()] == [b"echo one", b"echo two"]
            await client.send(b"echo 1", b"echo 2", b"echo 3")
            assert [await client.receive() for _ in range(3)] == [b"echo 1", b"echo 2", b"echo 3"]

    run(loop, test())


def test_answers_come_in_the_order_of_the_requests_although_they_finish_otherwise(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            await client.send(b"wait a", b"wait b", b"wait c", b"echo last")
            waiting = server.commands.waiting
            await until(lambda: len(waiting) == 3)
            for name in (b"c", b"b", b"a"):
                waiting[name].set_result(name)
                await asyncio.sleep(0.01)
            answers = [await client.receive() for _ in range(4)]
            assert answers == [b"a", b"b", b"c", b"echo last"]

    run(loop, test())


def test_requests_that_may_are_begun_before_earlier_ones_are_answered(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            await client.send(*[b"wait %d" % number for number in range(50)])
            await until(lambda: len(server.commands.waiting) == 50)
            for number in range(50):
                server.commands.waiting[b"%d" % number].set_result(b"%d" % number)
            assert [int(await client.receive()) for _ in range(50)] == list(range(50))

    run(loop, test())


def test_a_client_that_leaves_abandons_what_it_waits_for(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            await client.send(b"wait a", b"wait b")
            await until(lambda: len(server.commands.waiting) == 2)
            client.leave()
            await until(lambda: all(each.cancelled() for each in server.commands.waiting.values()))
            await until(lambda: not server.listener.connections)
            assert server.listener.memory.in_use == 0

    run(loop, test())


def test_a_request_without_a_response_delays_no_other(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            assert await client.call(b"echo") == b"echo"
            await client.send(b"silent", b"silent", b"echo")
            assert await client.receive() == b"echo"

    run(loop, test())


@pytest.mark.parametrize("body", [b"wrong", b"broken", b"unwritable"])
def test_a_mistake_closes_its_own_connection_only(loop, body):
    async def test():
        async with serving() as server:
            other, client = await server.client(), await server.client()
            await client.send(body)
            assert await client.is_closed()
            assert await other.call(b"echo") == b"echo"

    run(loop, test())


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1])
def test_an_impossible_length_closes_the_connection(loop, size):
    async def test():
        async with serving() as server:
            client = await server.client()
            await client.send_bytes(size.to_bytes(4, "big", signed=True))
            assert await client.is_closed()

    run(loop, test())


def test_the_first_request_may_not_be_large_but_later_ones_may(loop):
    async def test():
        async with serving(max_first_request_bytes=1000) as server:
            client = await server.client()
            await client.send_bytes((1001).to_bytes(4, "big"))
            assert await client.is_closed()
            client = await server.client()
            assert await client.call(b"echo") == b"echo"
            assert await client.call(b"echo " + bytes(100_000)) == b"echo " + bytes(59)

    run(loop, test())


def test_no_request_may_be_larger_than_the_memory_of_large_ones(loop):
    async def test():
        async with serving(max_bytes_in_flight=MIB) as server:
            client = await server.client()
            assert await client.call(b"echo") == b"echo"
            await client.send_bytes((MIB // 2 + 1).to_bytes(4, "big"))
            assert await client.is_closed()

    run(loop, test())


def test_the_buffer_grows_with_what_arrives_and_not_with_what_is_declared(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            assert await client.call(b"echo") == b"echo"
            await client.send_bytes((64 * MIB).to_bytes(4, "big") + bytes(1000))
            await until(lambda: server.connection.frame_size)
            assert server.listener.memory.in_use == 0
            await client.send_bytes(bytes(BASE_BYTES))
            await until(lambda: server.listener.memory.in_use)
            assert len(server.connection.input._bytes) < 8 * BASE_BYTES

    run(loop, test())


def test_a_large_buffer_is_given_back_when_small_requests_follow(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            assert await client.call(b"echo") == b"echo"
            await client.call(b"echo " + bytes(8 * MIB))
            assert server.commands.largest > 8 * MIB
            assert server.listener.memory.in_use > 7 * MIB
            for _ in range(SHRINK_AFTER):
                await client.call(b"echo")
            assert server.listener.memory.in_use == 0

    run(loop, test())


def test_a_client_that_does_not_read_stops_being_served(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await client.send(*[b"big %d" % MIB] * 500)
            await asyncio.sleep(0.3)
            begun = len(server.commands.begun)
            assert begun < 50, f"{begun} MiB of answers were made for nobody"
            assert server.listener.memory.in_use < 8 * MIB
            other = await server.client()
            assert await other.call(b"echo") == b"echo"
            client.reader._transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(500):
                assert len(await client.receive()) == MIB
            assert server.listener.memory.in_use == 0

    run(loop, test())


def test_other_requests_are_held_back_until_the_earlier_ones_are_answered(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            await client.send(b"wait a", *[b"big %d" % MIB] * 100, b"wait b")
            await until(lambda: server.commands.begun)
            await asyncio.sleep(0.1)
            assert server.commands.begun == [b"wait"]
            server.commands.waiting[b"a"].set_result(b"a")
            assert await client.receive() == b"a"
            for _ in range(100):
                assert len(await client.receive()) == MIB
            await until(lambda: b"b" in server.commands.waiting)

    run(loop, test())


def test_only_so_many_requests_of_one_client_are_in_work(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            await client.send(*[b"wait %d" % number for number in range(MAX_IN_FLIGHT + 50)])
            await until(lambda: len(server.commands.waiting) == MAX_IN_FLIGHT)
            await asyncio.sleep(0.05)
            assert len(server.commands.waiting) == MAX_IN_FLIGHT
            for number in range(MAX_IN_FLIGHT + 50):
                name = b"%d" % number
                await until(partial(server.commands.waiting.__contains__, name))
                server.commands.waiting[name].set_result(b"x")
            for _ in range(MAX_IN_FLIGHT + 50):
                assert await client.receive() == b"x"

    run(loop, test())


def test_an_exhausted_pool_pauses_reading_and_resumes_it(loop):
    async def test():
        async with serving(max_bytes_in_flight=8 * MIB) as server:
            first, second = await server.client(), await server.client()
            assert await first.call(b"echo") == await second.call(b"echo") == b"echo"
            body = b"echo " + bytes(3 * MIB)
            await first.send_bytes(framed(body)[: 3 * MIB - 1000])
            await until(lambda: server.listener.memory.in_use > 2 * MIB)
            sending = asyncio.create_task(second.send(body))
            await until(lambda: server.listener.memory.is_wanted)
            assert server.listener.memory.in_use <= 8 * MIB
            await first.send_bytes(framed(body)[3 * MIB - 1000 :])
            assert (await first.receive()).startswith(b"echo")
            assert (await second.receive()).startswith(b"echo")
            await sending

    run(loop, test())


def test_requests_that_together_exceed_the_memory_all_complete(loop):
    """None waits for memory while it holds some: so they cannot wait for each other."""
    sizes = [30_000, 700_000, 100_000, 1_300_000, 20, 1_900_000]

    async def test():
        async with serving(max_bytes_in_flight=4 * MIB) as server:

            async def talk(client, turn):
                assert await client.call(b"echo") == b"echo"
                order = sizes[turn:] + sizes[:turn]
                sending = asyncio.create_task(
                    client.send(*(b"echo %d %b" % (size, bytes(size)) for size in order))
                )
                for size in order:
                    assert (await client.receive()).startswith(b"echo %d " % size)
                await sending

            clients = [await server.client() for _ in sizes]
            await asyncio.gather(*(talk(client, turn) for turn, client in enumerate(clients)))
            assert server.listener.memory.in_use <= 4 * MIB
            assert sum(server.listener.dropped.values()) == 0

    run(loop, test())


def test_memory_that_could_not_be_allocated_is_given_back(loop, monkeypatch):
    def fail(buffer, size):
        raise MemoryError

    async def test():
        async with serving() as server:
            client, other = await server.client(), await server.client()
            assert await client.call(b"echo") == await other.call(b"echo") == b"echo"
            monkeypatch.setattr(ReceiveBuffer, "_resize", fail)
            await client.send_bytes(framed(bytes(3 * MIB))[: 2 * BASE_BYTES])
            assert await client.is_closed()
            await until(lambda: server.listener.memory.in_use == 0)
            assert await other.call(b"echo") == b"echo"

    run(loop, test())


def test_memory_that_cannot_be_allocated_when_it_is_granted_hurts_no_other_connection(
    loop, monkeypatch
):
    resize, roomy = ReceiveBuffer._resize, []

    def fail(buffer, size):
        if buffer not in roomy:
            raise MemoryError
        resize(buffer, size)

    async def test():
        async with serving(max_bytes_in_flight=8 * MIB) as server:
            first = await server.client()
            roomy.append(server.connection.input)
            second = await server.client()
            assert await first.call(b"echo") == await second.call(b"echo") == b"echo"
            monkeypatch.setattr(ReceiveBuffer, "_resize", fail)
            body = framed(b"echo " + bytes(3 * MIB))
            await first.send_bytes(body[:-1])
            await until(lambda: server.listener.memory.in_use > 2 * MIB)
            second.writer.write(body)
            await until(lambda: server.listener.memory.is_wanted)
            await first.send_bytes(body[-1:])
            assert (await first.receive()).startswith(b"echo")
            assert await second.is_closed()

    run(loop, test())


def test_idle_connections_release_their_large_buffers_when_memory_is_needed(loop):
    async def test():
        async with serving(max_bytes_in_flight=8 * MIB) as server:
            for _ in range(4):
                client = await server.client()
                assert await client.call(b"echo") == b"echo"
                assert (await client.call(b"echo " + bytes(3 * MIB))).startswith(b"echo")

    run(loop, test())


@pytest.mark.parametrize("more", [b"", framed(b"echo"), framed(b"echo " + bytes(MIB))])
def test_behind_a_request_that_waits_no_memory_is_held(loop, more):
    """Such as a fetch, whose client decides how long it waits."""

    async def test():
        async with serving(max_bytes_in_flight=8 * MIB) as server:
            client, other = await server.client(), await server.client()
            assert await client.call(b"echo") == await other.call(b"echo") == b"echo"
            large = framed(b"echo " + bytes(2 * MIB))
            client.writer.write(large + framed(b"poll a") + more)
            assert (await client.receive()).startswith(b"echo")
            await until(lambda: b"a" in server.commands.waiting)
            assert (await other.call(b"echo " + bytes(2 * MIB))).startswith(b"echo")
            other.leave()
            await until(lambda: server.listener.memory.in_use == 0)
            server.commands.waiting[b"a"].set_result(b"done")
            assert await client.receive() == b"done"
            if more:
                assert (await client.receive()).startswith(b"echo")

    run(loop, test())


def test_a_client_that_reads_no_responses_is_dropped_for_the_memory_that_it_holds(loop):
    async def test():
        async with serving(max_bytes_in_flight=8 * MIB) as server:
            client, other = await server.client(), await server.client()
            assert await client.call(b"echo") == await other.call(b"echo") == b"echo"
            half = framed(b"echo " + bytes(3 * MIB))[: 2 * MIB]
            client.writer.write(framed(b"wait a") + half)
            await until(lambda: server.listener.memory.in_use > 2 * MIB)
            server.commands.waiting[b"a"].set_result(bytes(64 * MIB))
            answered = await other.call(b"echo " + bytes(3 * MIB))
            assert answered.startswith(b"echo")

    run(loop, test())


def test_a_client_that_waits_for_memory_and_leaves_is_forgotten(loop):
    async def test():
        async with serving(max_bytes_in_flight=8 * MIB) as server:
            first, second = await server.client(), await server.client()
            assert await first.call(b"echo") == await second.call(b"echo") == b"echo"
            half = framed(b"echo " + bytes(3 * MIB))[: 3 * MIB - 1000]
            await first.send_bytes(half)
            await until(lambda: server.listener.memory.in_use > 2 * MIB)
            sending = asyncio.create_task(second.send_bytes(half))
            await until(lambda: server.listener.memory.is_wanted)
            sending.cancel()
            second.leave()
            await asyncio.sleep(0.05)
            first.leave()
            await until(lambda: server.listener.memory.in_use == 0)

    run(loop, test())
