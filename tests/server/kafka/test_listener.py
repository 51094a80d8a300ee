"""Limits over all connections, and deadlines."""

import asyncio
import socket

import pytest

from strom.model.broker_settings import BrokerSettings
from strom.model.errors import UserError
from strom.server.kafka import listener as listener_module
from strom.server.kafka.listener import KafkaListener
from strom.server.transport import slow_uploads
from strom.server.transport.drop_reason import DropReason
from tests.server.serving import LOOPS, Commands, framed, run, serving, until

pytestmark = pytest.mark.parametrize("loop", LOOPS)


@pytest.mark.parametrize("begun", [b"\0", framed(b"echo")[:6]])
def test_a_half_sent_request_is_given_up_after_its_deadline(loop, begun):
    async def test():
        async with serving(frame_deadline_ms=100) as server:
            client = await server.client()
            await client.send_bytes(begun)
            assert await client.is_closed()

    run(loop, test())


def test_a_slow_trickle_does_not_move_the_deadline(loop):
    async def test():
        async with serving(frame_deadline_ms=200) as server:
            client = await server.client()
            # Some byte is one too many. RuntimeError is that of uvloop for a closed connection.
            with pytest.raises((ConnectionError, TimeoutError, RuntimeError)):  # noqa: PT012
                for byte in framed(b"echo" * 1000):
                    await client.send_bytes(bytes([byte]))
                    await asyncio.sleep(0.02)
            assert server.commands.begun == []

    run(loop, test())


def test_a_client_that_waits_for_its_answer_is_not_given_up(loop):
    async def test():
        async with serving(frame_deadline_ms=50, connections_max_idle_ms=50) as server:
            client = await server.client()
            await client.send(b"wait a")
            await asyncio.sleep(0.3)
            server.commands.waiting[b"a"].set_result(b"a")
            assert await client.receive() == b"a"

    run(loop, test())


def test_a_request_that_we_do_not_read_is_not_late(loop):
    async def test():
        async with serving(frame_deadline_ms=100) as server:
            client = await server.client()
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await client.send(*[b"big 1000000"] * 40)
            await asyncio.sleep(0.5)
            client.reader._transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(40):
                assert len(await client.receive()) == 1_000_000

    run(loop, test())


MIB = 1024 * 1024


def test_stalled_uploads_do_not_delay_an_ordinary_request(loop):
    async def test():
        async with serving() as server:
            for _ in range(5):
                stalled = await server.client()
                assert await stalled.call(b"echo") == b"echo"
                stalled.writer.write(framed(bytes(94 * MIB))[: 16 * MIB])
            await until(lambda: server.listener.memory.is_wanted)
            honest = await server.client()
            assert await honest.call(b"echo") == b"echo"
            assert (await honest.call(b"echo " + bytes(100_000))).startswith(b"echo")
            assert sum(server.listener.dropped.values()) == 0, "there was no need to"

    run(loop, test())


def test_a_stalled_upload_is_dropped_when_others_wait_for_its_memory(loop, monkeypatch, caplog):
    monkeypatch.setattr(slow_uploads, "OBSERVED_SECONDS", 0.05)
    monkeypatch.setattr(listener_module, "SWEEP_SECONDS", 0.02)

    async def test():
        async with serving(max_bytes_in_flight=8 * MIB) as server:
            stalled, honest = await server.client(), await server.client()
            assert await stalled.call(b"echo") == await honest.call(b"echo") == b"echo"
            await stalled.send_bytes(framed(bytes(3 * MIB))[:MIB])
            await until(lambda: server.listener.memory.in_use > 2 * MIB)
            for _ in range(10):
                await asyncio.sleep(0.02)
            assert sum(server.listener.dropped.values()) == 0, "nobody waited"
            assert (await honest.call(b"echo " + bytes(3 * MIB))).startswith(b"echo")
            assert await stalled.is_closed()
            assert server.listener.dropped[DropReason.SLOW_UPLOAD] == 1

    with caplog.at_level("INFO"):
        run(loop, test())
    assert "queued.max.request.bytes" in caplog.text


def test_stalled_uploads_of_an_address_are_dropped_before_a_slow_one(loop):
    """Fifty of them, of which ten at a time hold memory, and one on a slow line."""

    async def test():
        async with serving(max_bytes_in_flight=32 * MIB) as server:
            stalled = [await server.client() for _ in range(50)]
            slow, honest = await server.client(), await server.client()
            for client in (*stalled, slow, honest):
                assert await client.call(b"echo") == b"echo"
            large = framed(b"echo " + bytes(MIB))
            await slow.send_bytes(large[:20_000])
            await until(lambda: server.listener.memory.in_use)
            for client in stalled:
                await client.send_bytes(large[:20_000])
            await until(lambda: server.listener.memory.is_wanted)
            answer = asyncio.create_task(honest.call(large[4:]))
            sent = 20_000
            while not answer.done():
                await slow.send_bytes(large[sent : sent + 1000])
                sent += 1000
                await asyncio.sleep(0.02)
            assert (await answer).startswith(b"echo")
            assert server.listener.dropped[DropReason.SLOW_UPLOAD] <= len(stalled)
            await slow.send_bytes(large[sent:])
            assert (await slow.receive()).startswith(b"echo")

    run(loop, test())


def test_a_request_that_waits_for_memory_is_not_late(loop):
    async def test():
        async with serving(max_bytes_in_flight=8 * MIB, frame_deadline_ms=100) as server:
            first, second = await server.client(), await server.client()
            assert await first.call(b"echo") == await second.call(b"echo") == b"echo"
            body = framed(b"echo " + bytes(3 * MIB))
            await first.send_bytes(body[:-1])
            await until(lambda: server.listener.memory.in_use > 2 * MIB)
            second.writer.write(body)
            await until(lambda: server.listener.memory.is_wanted)
            waiting = next(one for one in server.listener.connections if one.reservation.is_waiting)
            waiting.frame_began = 0.001  # ages ago
            server.listener._sweep()
            assert sum(server.listener.dropped.values()) == 0
            await first.send_bytes(body[-1:])
            assert (await first.receive()).startswith(b"echo")
            assert (await second.receive()).startswith(b"echo")

    run(loop, test())


def test_an_idle_connection_is_closed(loop):
    async def test():
        async with serving(frame_deadline_ms=100, connections_max_idle_ms=100) as server:
            client = await server.client()
            assert await client.call(b"echo") == b"echo"
            assert await client.is_closed()

    run(loop, test())


def test_beyond_the_limit_of_connections_new_ones_are_closed_and_old_ones_served(loop):
    async def test():
        async with serving(max_connections=3) as server:
            clients = [await server.client() for _ in range(3)]
            assert await (await server.client()).is_closed()
            for client in clients:
                assert await client.call(b"echo") == b"echo"
            clients[0].leave()
            await until(lambda: len(server.listener.connections) == 2)
            assert await (await server.client()).call(b"echo") == b"echo"

    run(loop, test())


def test_one_address_may_have_so_many_connections(loop):
    async def test():
        async with serving(max_connections_per_ip=2) as server:
            clients = [await server.client() for _ in range(2)]
            assert await (await server.client()).is_closed()
            for client in clients:
                assert await client.call(b"echo") == b"echo"
            clients[0].leave()
            await until(lambda: len(server.listener.connections) == 1)
            assert await (await server.client()).call(b"echo") == b"echo"

    run(loop, test())


def test_stopping_lets_every_client_go(loop):
    async def test():
        async with serving() as server:
            client = await server.client()
            await client.send(b"wait a")
            await until(lambda: server.commands.waiting)
            await server.listener.stop()
            assert await client.is_closed()

    run(loop, test())


def test_a_port_in_use_is_reported_with_what_to_do(loop):
    async def test():
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            settings = BrokerSettings(port=taken.getsockname()[1])
            listener = KafkaListener(settings, Commands())
            with pytest.raises(UserError, match="in use") as caught:
                await listener.start(lambda _: None)
            assert caught.value.setting == "port"

    run(loop, test())


def test_an_address_that_is_not_ours_is_reported_with_what_to_do(loop):
    async def test():
        listener = KafkaListener(BrokerSettings(host="192.0.2.1", port=0), Commands())
        with pytest.raises(UserError, match="not an address of this machine") as caught:
            await listener.start(lambda _: None)
        assert caught.value.setting == "host"

    run(loop, test())
