"""Queues and topics without sockets, on a disk in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from strom.broker.partition import HostedTopic
from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import QueueBroker
from strom.broker.queues.message_properties import make_message
from strom.broker.queues.naming import DEFAULT_VHOST
from strom.broker.queues.store import QueueStore
from strom.broker.queues.to_topic import TopicFeed
from strom.queues.definitions import QUEUE, Binding, ExchangeDefinition, QueueDefinition
from strom.queues.message import Message
from strom.queues.queue import Queue
from strom.queues.receipts import BatchReceipt
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from strom.wire.amqp.content import BasicProperties, encode_properties
from strom.wire.kafka.records import Record, build_batch
from tests.broker.opened import opened, values_in


class Confirmation(BatchReceipt):
    """What a publisher with confirms learns of one message."""

    def __init__(self) -> None:
        super().__init__(self._confirmed)
        self.outcome: bool | None = None
        """None until then."""

    def _confirmed(self, durable: bool) -> None:
        self.outcome = durable


class QueueWorld:
    """Queues, exchanges and topics of one broker."""

    def __init__(self, hub: QueueBroker, files: MemoryFiles, clock: ManualClock) -> None:
        self.hub = hub
        self.broker = hub.broker
        self.files = files
        self.clock = clock
        self.vhost = hub.vhosts[DEFAULT_VHOST]
        self.declarations = Declarations(hub)

    async def queue(self, name: str, bound_to: str = "", key: str = "", **arguments: Any) -> Queue:
        given = {name.replace("_", "-"): value for name, value in arguments.items()}
        wanted = QueueDefinition(DEFAULT_VHOST, name, arguments=given)
        made = await self.declarations.declare_queue(self.vhost, wanted, None, passive=False)
        if bound_to:
            binding = Binding(DEFAULT_VHOST, bound_to, QUEUE, name, key)
            await self.declarations.bind(self.vhost, binding)
        return made

    async def exchange(self, name: str, kind: str = "fanout", **arguments: Any) -> None:
        given = {name.replace("_", "-"): value for name, value in arguments.items()}
        wanted = ExchangeDefinition(DEFAULT_VHOST, name, kind, arguments=given)
        await self.declarations.declare_exchange(self.vhost, wanted, passive=False)

    async def topic(self, name: str, partitions: int = 1, **configs: Any) -> HostedTopic:
        texts = {key.replace("_", "."): value for key, value in configs.items()}
        return await self.broker.create_topic(name, partitions, texts)

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        hosted = self.broker.find_topic(topic)
        return [] if hosted is None else values_in(hosted.partitions[partition])

    def feed(self, exchange: str) -> TopicFeed:
        return self.hub.bridges._feeds[self.vhost.exchanges[exchange]]

    def message(
        self, body: bytes, key: str = "", exchange: str = "", headers: Any = None
    ) -> Message:
        properties = encode_properties(BasicProperties(delivery_mode=2, headers=headers))
        return make_message(exchange, key, properties, body, self.clock.now_ms())

    def publish(
        self, body: bytes, key: str = "", exchange: str = "", headers: Any = None
    ) -> Confirmation:
        confirmation = Confirmation()
        message = self.message(body, key, exchange, headers)
        self.hub.publish(self.vhost, message, confirmation)
        confirmation.settle(durable=True)
        return confirmation

    def produce(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        key: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> None:
        hosted = self.broker.topic(topic)
        now_ms = self.clock.now_ms()
        records = [Record(at, now_ms, key, value, headers) for at, value in enumerate(values)]
        hosted.partitions[partition].append(build_batch(records), now_ms)

    async def settled(self) -> None:
        """Return when everything that can be done without waiting is done, and durable."""
        for _ in range(6):
            for _ in range(5):
                await asyncio.sleep(0)
            self.hub.turn.end()
            await self.broker.commit.finish_all()

    async def until(self, look: Callable[[], Any], expected: Any = True) -> None:
        """Return when it is so."""
        try:
            async with asyncio.timeout(20):
                while look() != expected:
                    await asyncio.sleep(0.001)
                    await self.settled()
        except TimeoutError:
            raise AssertionError(f"{look()!r} stayed, {expected!r} was expected") from None

    def lose_power(self) -> None:
        self.broker.directory.fail(OSError("the power went"))
        self.files.crash()

    def waiting(self, queue: str) -> list[bytes]:
        """Take everything that waits."""
        found = self.vhost.queues[queue]
        taken = iter(lambda: found.get(self.clock.now_ms(), no_ack=True), None)
        return [got.message.body for got in taken]

    def live(self, queue: str) -> int:
        """How many messages the queue's log holds that are not gone."""
        store = self.vhost.queues[queue].store
        assert isinstance(store, QueueStore)
        return store.log.progress.acknowledged.count_live_before(store.next_position)


@asynccontextmanager
async def queue_world(
    files: MemoryFiles | None = None, clock: ManualClock | None = None, **settings: str
) -> AsyncIterator[QueueWorld]:
    files, clock = files or MemoryFiles(), clock or ManualClock()
    async with opened(files, clock, **settings) as broker:
        hub = QueueBroker(broker.broker)
        await hub.load()
        try:
            yield QueueWorld(hub, files, clock)
        finally:
            if broker.broker.directory.offline is None:
                await hub.stop()
            else:
                hub.bridges.stop()
                for delayed in hub.delayed.values():
                    delayed.stop()
