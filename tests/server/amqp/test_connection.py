"""A connection of a queue client, frame by frame, without sockets."""

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from strom.queues.errors import QueueError, Reason, not_found
from strom.server.amqp.confirms import Confirms
from strom.server.amqp.connection import AmqpConnection
from strom.server.amqp.outgoing import MAX_UNCONFIRMED
from strom.server.amqp.receiving import GROWTH_BYTES, SMALL_BYTES
from strom.server.transport import slow_uploads
from strom.server.transport.drop_reason import DropReason
from strom.wire.amqp.codec import method_frame
from strom.wire.amqp.content import (
    BasicProperties,
    ContentHeader,
    encode_header,
    encode_properties,
)
from strom.wire.amqp.frames import Frame, FrameReader
from strom.wire.amqp.methods import basic, confirm, decode_method, queue
from strom.wire.amqp.methods import channel as channel_methods
from strom.wire.amqp.methods import connection as methods
from strom.wire.amqp.protocol import (
    BODY_FRAME,
    FRAME_END,
    HEADER_FRAME,
    HEARTBEAT,
    PROTOCOL_HEADER,
    ReplyCode,
)
from tests.server.amqp.in_process import Clients, Wire, clients

NO_PROPERTIES = bytes(2)


class Transcript(Wire):
    """Keeps what was written, and whether the connection was closed."""

    def __init__(self) -> None:
        super().__init__()
        self._extra = {"peername": ("127.0.0.1", 40000)}
        self.data = b""
        self.closed = False
        self.reading = True

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.data += data

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    abort = close

    def methods(self) -> list[Any]:
        """The methods that were written since the last call."""
        data, self.data = self.data, b""
        found, position = [], 0
        reader = FrameReader(frame_max=131072)
        while frame := reader.read(memoryview(data), position, len(data)):
            found.append(decode_method(frame.payload) if isinstance(frame, Frame) else frame)
            position = frame.end
        return found


def feed(connection: AmqpConnection, data: bytes) -> None:
    transport = connection._transport
    transport.get_buffer(-1)[: len(data)] = data
    transport.buffer_updated(len(data))


def run(test: Callable[[Clients[Any], Transcript], Coroutine[Any, Any, None]]) -> None:
    async def scene() -> None:
        async with clients() as it:
            await test(it, Transcript())

    asyncio.run(asyncio.wait_for(scene(), 10))


def greeted(it: Clients[Any], wire: Transcript) -> AmqpConnection:
    """A connection that has logged in by its own frames."""
    connection = it.accept(wire)
    feed(connection, PROTOCOL_HEADER)
    feed(connection, method_frame(0, methods.StartOk({}, "PLAIN", b"\0guest\0guest", "en_US")))
    feed(connection, method_frame(0, methods.TuneOk(0, 0, 0)))
    feed(connection, method_frame(0, methods.Open("/")))
    connection.flush()
    return connection


def test_a_client_logs_in_and_opens_a_channel():
    async def test(it, wire):
        connection = greeted(it, wire)
        feed(connection, method_frame(7, channel_methods.Open()))
        connection.flush()
        assert [type(each).__name__ for each in wire.methods()] == [
            "Start",
            "Tune",
            "OpenOk",
            "OpenOk",
        ]
        assert list(connection.channels) == [7]

    run(test)


def test_another_protocol_gets_the_header_and_is_closed():
    async def test(it, wire):
        feed(it.accept(wire), b"GET / HTTP/1.1\r\n\r\n")
        assert wire.data == PROTOCOL_HEADER
        assert wire.closed

    run(test)


@pytest.mark.parametrize("reason", Reason)
def test_every_refusal_of_queues_has_a_reply_code(reason):
    async def test(it, wire):
        connection = it.connect(wire)
        connection.fail(QueueError(reason, "why"), 0)
        (close,) = wire.methods()
        assert close.reply_code == ReplyCode[reason.name]
        assert close.reply_text == f"{reason.name} - why"

    run(test)


def test_an_error_of_a_channel_closes_the_channel_alone():
    async def test(it, wire):
        connection = it.connect(wire)
        first, second = it.channel(connection), it.channel(connection)
        connection.fail(not_found("queue", "q", "/"), first.number)
        connection.flush()
        (close,) = wire.methods()
        assert (type(close), close.reply_code) == (channel_methods.Close, ReplyCode.NOT_FOUND)
        assert (first.closing, second.closing) == (True, False)
        connection.state.handshake = object()
        feed(connection, method_frame(first.number, channel_methods.CloseOk()))
        assert list(connection.channels) == [second.number]
        assert not wire.closed

    run(test)


def test_what_is_due_when_a_channel_closes_is_confirmed_before_and_counted_once():
    async def test(it, wire):
        connection = it.connect(wire)
        channel = it.channel(connection)
        channel.publisher.confirms = Confirms(channel.out.flush_soon)
        receipts = [channel.publisher.confirms.expect() for _ in range(3)]
        channel.out.unconfirmed += 3
        receipts[0].settle(durable=True)
        connection.fail(not_found("queue", "q", "/"), channel.number)
        connection.flush()
        assert [type(each).__name__ for each in wire.methods()] == [
            "Acknowledgement",
            "Close",
        ]
        assert channel.out.unconfirmed == 0

    run(test)


def test_a_publisher_is_not_read_while_publishers_are_held_back():
    async def test(it, wire):
        connection = it.connect(wire)
        connection.state.handshake = object()
        channel = it.channel(connection)
        channel.publisher.has_published = True
        it.services.queues.block.set("low on disk")
        feed(connection, method_frame(channel.number, confirm.Select(False)))
        assert not wire.reading
        assert channel.publisher.confirms is None
        it.services.queues.block.set(None)
        connection.set_blocked(None)
        await asyncio.sleep(0)
        assert wire.reading
        assert channel.publisher.confirms is not None

    run(test)


def test_a_client_is_read_again_when_the_channel_that_published_too_much_is_closed():
    async def test(it, wire):
        connection = it.connect(wire)
        connection.state.handshake = object()
        channel, other = it.channel(connection), it.channel(connection)
        channel.publisher.confirms = Confirms(channel.out.flush_soon)
        for _ in range(MAX_UNCONFIRMED):
            channel.publisher.confirms.expect()
        channel.out.unconfirmed = MAX_UNCONFIRMED
        feed(connection, method_frame(other.number, confirm.Select(False)))
        assert not wire.reading
        connection.fail(not_found("queue", "q", "/"), channel.number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert wire.reading
        assert other.publisher.confirms is not None

    run(test)


def test_a_client_is_read_again_when_others_free_the_memory_for_unread_responses():
    async def test(it, wire):
        connection = it.connect(wire)
        connection.state.handshake = object()
        channel, memory = it.channel(connection), it.listener.memory.responses
        memory.force_take(memory.capacity, "other")
        connection._transport.pause_writing()
        feed(connection, method_frame(channel.number, confirm.Select(False)))
        assert not wire.reading
        memory.give(memory.capacity, "other")
        await asyncio.sleep(0)
        assert wire.reading
        assert channel.publisher.confirms is not None
        assert memory.in_use == 0

    run(test)


def test_a_client_that_leaves_while_the_memory_is_exhausted_is_not_waited_for():
    async def test(it, wire):
        connection = it.connect(wire)
        connection.state.handshake = object()
        channel, memory = it.channel(connection), it.listener.memory.responses
        memory.force_take(memory.capacity, "other")
        connection._transport.pause_writing()
        feed(connection, method_frame(channel.number, confirm.Select(False)))
        assert memory.is_wanted
        connection._transport.connection_lost(None)
        assert not memory.is_wanted
        memory.give(memory.capacity, "other")
        assert memory.in_use == 0

    run(test)


def half_a_message(channel: int, size: int, sent: int) -> bytes:
    """A publish whose body is incomplete."""
    publish = method_frame(channel, basic.Publish(exchange="", routing_key="q"))
    header = encode_header(ContentHeader(size, NO_PROPERTIES))
    frames = [frame(HEADER_FRAME, channel, header), frame(BODY_FRAME, channel, bytes(sent))]
    return b"".join((publish, *frames))


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return b"".join((struct.pack(">BHI", kind, channel, len(payload)), payload, bytes([FRAME_END])))


def opened(it: Clients[Any], wire: Transcript) -> AmqpConnection:
    connection = greeted(it, wire)
    feed(connection, method_frame(1, channel_methods.Open()))
    return connection


def test_a_message_waits_for_memory_that_others_hold_and_is_published_then():
    async def test(it, wire):
        await it.world.declare("q")
        memory, other_wire = it.services.memory, Transcript()
        size = memory.largest_request
        first, second = opened(it, wire), opened(it, other_wire)
        feed(first, half_a_message(1, size, 1000))
        assert memory.in_use == size
        feed(second, half_a_message(1, size, 10))
        assert (memory.is_wanted, other_wire.reading, wire.reading) == (True, False, True)
        assert [one.upload.reservation.is_waiting for one in (first, second)] == [False, True]
        first._transport.connection_lost(None)
        await asyncio.sleep(0)
        assert (memory.in_use, other_wire.reading) == (size, True)
        for sent in range(10, size, 10_000):
            feed(second, frame(BODY_FRAME, 1, bytes(min(10_000, size - sent))))
            await asyncio.sleep(0)
        assert [len(body) for body in it.world.bodies("q")] == [size]
        assert memory.in_use == 0

    run(test)


def test_a_stalled_message_is_dropped_when_others_wait_for_its_memory(monkeypatch):
    monkeypatch.setattr(slow_uploads, "OBSERVED_SECONDS", 1e-6)

    async def test(it, wire):
        memory = it.services.memory
        other_wire = Transcript()
        first, second = opened(it, wire), opened(it, other_wire)
        feed(first, half_a_message(1, memory.largest_request, 1000))
        feed(first, HEARTBEAT)
        it.listener.drop_slow_uploads()
        assert not wire.closed, "nobody waits"
        feed(second, half_a_message(1, memory.largest_request, 10))
        await asyncio.sleep(0.001)
        it.listener.drop_slow_uploads()
        await asyncio.sleep(0.001)
        it.listener.drop_slow_uploads()
        assert (wire.closed, other_wire.closed) == (True, False)
        assert it.listener.dropped[DropReason.SLOW_UPLOAD] == 1

    run(test)


def test_a_message_of_a_client_that_does_not_read_is_dropped_when_others_wait(monkeypatch):
    monkeypatch.setattr(slow_uploads, "OBSERVED_SECONDS", 1e-6)

    async def test(it, wire):
        memory = it.services.memory
        other_wire = Transcript()
        first, second = opened(it, wire), opened(it, other_wire)
        feed(first, half_a_message(1, memory.largest_request, 1000))
        monkeypatch.setattr(type(first.out), "is_unread", property(lambda out: out is first.out))
        first.resume()
        first._transport.pause_reading()
        assert first.upload is not None
        feed(second, half_a_message(1, memory.largest_request, 10))
        for _ in range(3):
            it.listener.drop_slow_uploads()
            await asyncio.sleep(0.001)
        assert (wire.closed, other_wire.closed) == (True, False)

    run(test)


def test_a_message_of_a_client_whose_requests_take_all_the_time_is_dropped_when_others_wait(
    monkeypatch,
):
    monkeypatch.setattr(slow_uploads, "OBSERVED_SECONDS", 1e-6)

    async def test(it, wire):
        memory = it.services.memory
        other_wire = Transcript()
        first, second = opened(it, wire), opened(it, other_wire)
        feed(first, method_frame(2, channel_methods.Open()))
        feed(first, half_a_message(1, memory.largest_request, 1000))
        feed(second, half_a_message(1, memory.largest_request, 10))
        await asyncio.sleep(0)
        for number in range(3):
            feed(first, method_frame(2, queue.Declare(queue=f"q{number}")) * 50)
            assert not wire.reading, "it waits until a queue is declared"
            it.listener.drop_slow_uploads()
            if wire.closed:
                break
            while not wire.reading:
                await asyncio.sleep(0)
        assert (wire.closed, other_wire.closed) == (True, False)

    run(test)


def buffered(connections: list[AmqpConnection]) -> int:
    """The size of their receive buffers."""
    return sum(len(one.input.view) for one in connections)


async def send(connection: AmqpConnection, data: bytes) -> bytes:
    """Feed as much at a time as there is room for, while the connection is read; return the rest."""
    while data and connection._transport.is_reading:
        room = connection.input.room
        feed(connection, data[:room])
        data = data[room:]
        for _ in range(3):  # a read that fills the buffer ends the turn
            await asyncio.sleep(0)
    return data


LARGE_HEADER = frame(
    HEADER_FRAME,
    1,
    encode_header(
        ContentHeader(0, encode_properties(BasicProperties(headers={"x": "y" * 50_000})))
    ),
)
LARGE_PROPERTIES = method_frame(1, basic.Publish(exchange="", routing_key="q")) + LARGE_HEADER


def test_half_sent_frames_and_bursts_hold_no_more_buffers_than_there_is_memory():
    async def test(it, wire):
        await it.world.declare("q")
        burst = half_a_message(1, 100_000, 100_000)
        for data in (burst[:60_000], burst * 3, LARGE_PROPERTIES[:-1]):
            connections = [opened(it, Transcript()) for _ in range(20)]
            for one in connections:
                await send(one, data)
            small = SMALL_BYTES * len(connections)
            assert buffered(connections) - small <= max(
                it.services.memory.buffers.capacity, GROWTH_BYTES
            )
            for one in connections:
                one._transport.connection_lost(None)
            assert it.services.memory.in_use == 0

    run(test)


def test_a_body_larger_than_a_small_buffer_is_published_without_memory_for_a_large_one():
    async def test(it, wire):
        await it.world.declare("q")
        buffers = it.services.memory.buffers
        buffers.force_take(buffers.capacity, "other")
        assert await send(opened(it, wire), half_a_message(1, 100_000, 100_000) * 2) == b""
        await asyncio.sleep(0)
        assert [len(body) for body in it.world.bodies("q")] == [100_000] * 2
        assert it.services.memory.in_use == buffers.capacity

    run(test)


def test_a_large_header_waits_for_a_buffer_that_others_hold_and_is_published_then():
    async def test(it, wire):
        await it.world.declare("q")
        other = Transcript()
        first, second = opened(it, wire), opened(it, other)
        await send(first, LARGE_PROPERTIES[:-1])
        rest = await send(second, LARGE_PROPERTIES)
        assert (wire.reading, other.reading) == (True, False)
        assert [one.upload.reservation.is_waiting for one in (first, second)] == [False, True]
        first._transport.connection_lost(None)
        await asyncio.sleep(0)
        assert other.reading
        assert await send(second, rest) == b""
        assert len(it.world.bodies("q")) == 1

    run(test)


def test_a_buffer_that_is_granted_in_the_turn_of_the_request_is_used_before_more_is_read():
    async def test(it, wire):
        await it.world.declare("q")
        first, second = opened(it, wire), opened(it, Transcript())
        await send(first, LARGE_PROPERTIES[:-1])
        feed(second, method_frame(1, basic.Publish(exchange="", routing_key="q")))
        feed(second, LARGE_HEADER[:SMALL_BYTES])
        assert second.upload.reservation.is_waiting
        first._transport.connection_lost(None)
        for _ in range(3):
            await asyncio.sleep(0)
        assert second._transport.is_reading
        assert second.input.room, "an event loop closes a connection that has no room for a read"
        assert await send(second, LARGE_HEADER[SMALL_BYTES:]) == b""
        assert len(it.world.bodies("q")) == 1

    run(test)


def test_a_large_frame_in_the_middle_of_a_message_does_not_wait():
    async def test(it, wire):
        buffers = it.services.memory.buffers
        buffers.force_take(buffers.capacity, "other")
        connection = opened(it, wire)
        feed(connection, method_frame(2, channel_methods.Open()))
        feed(connection, half_a_message(2, 1000, 10))
        await send(connection, LARGE_PROPERTIES)
        *_, close = wire.methods()
        assert close.reply_code == ReplyCode.RESOURCE_ERROR
        assert it.services.memory.in_use == buffers.capacity

    run(test)


def test_a_large_buffer_is_given_back_when_it_is_not_needed_or_others_wait():
    async def test(it, wire):
        await it.world.declare("q")
        idle, other = opened(it, wire), Transcript()
        assert await send(idle, half_a_message(1, 20_000, 20_000)) == b""
        assert idle.input.is_large
        idle.release_buffer()
        assert idle.input.is_large, "it was filled since it was asked last"
        idle.release_buffer()
        assert not idle.input.is_large
        assert it.services.memory.in_use == 0
        assert await send(idle, half_a_message(1, 20_000, 20_000)) == b""
        waiting = opened(it, other)
        await send(waiting, LARGE_PROPERTIES)
        assert not other.reading
        idle.release_buffer()
        await asyncio.sleep(0)
        assert other.reading

    run(test)


def test_a_broker_that_stops_says_so():
    async def test(it, wire):
        it.connect(wire).shut_down()
        (close,) = wire.methods()
        assert close.reply_code == ReplyCode.CONNECTION_FORCED
        assert wire.closed

    run(test)
