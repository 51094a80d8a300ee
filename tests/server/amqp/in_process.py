"""Channels of queue clients without sockets: what a turn of the event loop does can be counted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from strom.broker.queues.declaring import Declarations
from strom.model.broker_settings import BrokerSettings
from strom.queues.queue import Queue
from strom.server.amqp.channel import Channel, ChannelConsumer
from strom.server.amqp.connection import AmqpConnection
from strom.server.amqp.session import Login, QueueServices
from strom.server.memory import NetworkMemory
from strom.server.process_limits import ConnectionSlots
from strom.server.transport.client_transport import ClientTransport
from strom.server.transport.socket_listener import SocketListener
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from strom.wire.amqp.delivering import DeliveryWriter
from strom.wire.amqp.protocol import FRAME_MAX_DEFAULT
from tests.broker.queue_world import QueueWorld
from tests.broker.queues.test_power_loss_of_dead_letters import World, queues

W = TypeVar("W", bound=World | QueueWorld)


class Wire(asyncio.Transport):
    """Takes everything at once, and forgets how much it was."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.written = data

    def is_reading(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        pass

    abort = close


def connection_of(channel: Channel) -> AmqpConnection:
    connection = channel.out._sender
    assert isinstance(connection, AmqpConnection)
    return connection


def disconnect(channel: Channel) -> None:
    """The connection of a channel is lost."""
    connection_of(channel)._transport.connection_lost(None)


class Clients(Generic[W]):
    """Makes connections to a world of queues."""

    def __init__(self, world: W) -> None:
        self.world = world
        settings = BrokerSettings()
        memory = NetworkMemory(1 << 20, buffers=1 << 17)
        self.services = QueueServices(
            world.hub, Declarations(world.hub), settings, "strom@test", memory
        )
        self.listener: SocketListener[AmqpConnection] = SocketListener(
            lambda transport: AmqpConnection(transport, self.services),
            ConnectionSlots(10_000),
            memory,
        )

    @property
    def connections(self) -> set[AmqpConnection]:
        return self.listener.connections

    def connect(self, wire: Wire | None = None) -> AmqpConnection:
        """A connection that has logged in."""
        connection = self.accept(wire)
        connection.state.open(Login("guest", self.world.vhost, FRAME_MAX_DEFAULT, 2047, 0, False))
        return connection

    def accept(self, wire: Wire | None = None) -> AmqpConnection:
        """A connection that has sent nothing yet."""
        transport = ClientTransport(self.listener)
        transport.connection_made(wire or Wire())
        return transport.handler

    def channel(self, connection: AmqpConnection | None = None) -> Channel:
        connection = connection or self.connect()
        number = len(connection.channels) + 1
        assert connection.state.session is not None
        connection.channels[number] = Channel(connection.state.session, number)
        return connection.channels[number]

    def consume(self, channel: Channel, queue: Queue, limit: int = 0) -> ChannelConsumer:
        tag = f"c{len(channel.consumers)}"
        consumer = ChannelConsumer(queue, channel, tag, limit=limit)
        consumer.writer = DeliveryWriter(channel.number, tag, channel.session.login.frame_max)
        queue.consumers.add(consumer)
        channel.consumers[tag] = consumer
        channel.serve([queue])
        return consumer

    async def take(self, queue: Queue, count: int) -> Channel:
        """A channel that has so many messages, unacknowledged."""
        channel = self.channel()
        self.consume(channel, queue, limit=count)
        while len(channel.unacked) < count:
            await asyncio.sleep(0)
        return channel


@asynccontextmanager
async def clients() -> AsyncIterator[Clients[World]]:
    async with queues(MemoryFiles(), ManualClock()) as world:
        yield Clients(world)
