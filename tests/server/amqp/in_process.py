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
from strom.server.amqp.context import HalfReceived, QueueServices
from strom.server.process_limits import ConnectionSlots
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from strom.wire.amqp.delivering import DeliveryWriter
from tests.broker.queue_world import QueueWorld
from tests.broker.test_power_loss_of_dead_letters import World, queues

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

    def close(self) -> None:
        pass

    abort = close


class Clients(Generic[W]):
    """Makes connections to a world of queues."""

    def __init__(self, world: W) -> None:
        self.world = world
        self.connections: set[AmqpConnection] = set()
        settings = BrokerSettings()
        self.services = QueueServices(
            world.hub,
            Declarations(world.hub),
            settings,
            "strom@test",
            HalfReceived(1 << 20),
            ConnectionSlots(10_000),
        )

    def connect(self) -> AmqpConnection:
        connection = AmqpConnection(self.services, self.connections)
        connection.connection_made(Wire())
        connection.opened(self.world.vhost, heartbeat_s=0)
        return connection

    def channel(self, connection: AmqpConnection | None = None) -> Channel:
        connection = connection or self.connect()
        number = len(connection.channels) + 1
        connection.channels[number] = Channel(connection, number)
        return connection.channels[number]

    def consume(self, channel: Channel, queue: Queue, limit: int = 0) -> ChannelConsumer:
        tag = f"c{len(channel.consumers)}"
        consumer = ChannelConsumer(queue, channel, tag, limit=limit)
        consumer.writer = DeliveryWriter(channel.number, tag, channel.connection.frame_max)
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
