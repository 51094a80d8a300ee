"""All message queues of a broker: its virtual hosts, and publishing to them."""

import asyncio
import contextlib
from collections.abc import Callable

from strom.broker.broker import Broker
from strom.broker.queues import restoring
from strom.broker.queues.bridges import Bridges
from strom.broker.queues.delayed import BATCH_BYTES, DelayedMessages
from strom.broker.queues.naming import NO_QUEUE, topic_of
from strom.broker.queues.queue_host import QueueHost, still_there
from strom.broker.queues.queue_stores import QueueStores, store_of
from strom.broker.queues.slices import BackgroundTasks, Slices
from strom.broker.queues.topology import TopologyLog
from strom.broker.queues.turn import PublisherBlock, TickBatcher
from strom.model.errors import ApiError, DirectoryOffline, StorageError
from strom.queues.definitions import Binding, QueueDefinition
from strom.queues.delays import released
from strom.queues.destinations import Destinations, find_destinations
from strom.queues.errors import QueueError, Reason
from strom.queues.message import Message
from strom.queues.queue import Queue
from strom.queues.receipts import Receipt
from strom.queues.store import PendingRemoval
from strom.queues.virtual_host import VirtualHost

STOP_SECONDS = 10.0


class QueueBroker:
    """The virtual hosts with their exchanges and queues, on the broker's logs."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.clock = broker.clock
        self.loop = asyncio.get_running_loop()
        self.vhosts: dict[str, VirtualHost] = {}
        self.damaged: dict[tuple[str, str], list[QueueDefinition | Binding]] = {}
        """Definitions of queues whose log cannot be read, by virtual host and name."""
        self.topology = TopologyLog(broker)
        self.block = PublisherBlock()
        self.turn = TickBatcher(self.block, broker.storage_failed)
        self.slices = Slices(self.loop)
        self.tasks = BackgroundTasks(broker.storage_failed)
        self.stores = QueueStores(broker, self.turn, self.tasks)
        self.bridges = Bridges(self)
        self.host = QueueHost(self.vhosts, self.bridges, self.turn, self.slices, self.clock)
        self.delayed: dict[str, DelayedMessages] = {}
        """By virtual host; see `delayed_of`."""

    # --- life ----------------------------------------------------------------------------------

    async def load(self) -> None:
        """Restore the topology and the messages from the logs."""
        await restoring.restore(self)

    def add_vhost(self, name: str) -> VirtualHost:
        """The virtual host of that name, created if it does not exist."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            vhost = self.vhosts[name] = VirtualHost(name)
        return vhost

    def make_queue(self, definition: QueueDefinition) -> Queue:
        """Create a queue with its store, not yet in its virtual host."""
        store = self.stores.make(definition)
        queue = Queue(definition, store, self.host)
        store.consumers = queue.consumers
        return queue

    def forget(self, queue: Queue) -> None:
        """Delete the log of a deleted queue."""
        self.host.forget(queue)
        self.stores.forget(store_of(queue))

    async def stop(self) -> None:
        """Finish what is in progress, and write everything that must survive."""
        self.host.stop()
        for delayed in self.delayed.values():
            delayed.stop()
        with contextlib.suppress(ApiError, StorageError):  # the disk may be why it stops
            await self.slices.finish()
        self.bridges.stop()
        self.turn.end()
        while self.host.dead_letters:
            self.turn.end()
        await self.broker.commit.finish_all()
        self.turn.end()  # dead letters are durable now: write the removal of their sources
        with contextlib.suppress(ApiError, StorageError):  # the disk may be why it stops
            await self.bridges.note_positions()  # what topics fed is durable now, too
        await self.tasks.finish(STOP_SECONDS)

    async def sync(self) -> None:
        """Sync to disk what was written without a publisher waiting for it."""
        self.stores.sync()

    async def trim(self) -> None:
        """Free the disk space of removed messages."""
        await self.stores.trim()

    # --- messages ------------------------------------------------------------------------------

    def publish(self, vhost: VirtualHost, message: Message, receipt: Receipt | None) -> bool:
        """Publish a message; False if it is unroutable."""
        headers = message.headers
        if headers is None and not vhost.has_feeds:
            queues = vhost.route(message.exchange, message.routing_key, None)
            for queue in queues:
                if (
                    not queue.publish(message, message.timestamp_ms, receipt)
                    and receipt is not None
                ):
                    receipt.expect()
                    receipt.settle(durable=False)
            return len(queues) > 0
        found = find_destinations(vhost, message)
        if found.is_delayed:
            self.delayed_of(vhost.name).add(message, receipt)
            return True
        return self.publish_to(found, receipt)

    def publish_to(
        self,
        found: Destinations,
        receipt: Receipt | None,
        again: Callable[[], Message | None] | None = None,
        *,
        is_committed: bool = False,
    ) -> bool:
        """Publish a message to its destinations; False if it has none.

        `again` reads the message again from its source. Full queues accept a committed message too.
        """
        message = found.message
        for queue in found.queues:
            taken = queue.publish(message, message.timestamp_ms, receipt, is_committed=is_committed)
            # A patient receipt waits for the disk, but not for a full queue: as in RabbitMQ, such a
            # queue drops a message that has no publisher to nack.
            if not taken and receipt is not None and not receipt.is_patient:
                receipt.expect()
                receipt.settle(durable=False)
        fed = self.bridges.feed(found.feeding, message, receipt, again)
        return fed or len(found.queues) > 0

    def delayed_of(self, vhost: str) -> DelayedMessages:
        """The delayed messages of a virtual host, created on first use."""
        delayed = self.delayed.get(vhost)
        if delayed is None:
            definition = QueueDefinition(vhost, NO_QUEUE, topic=topic_of(vhost, NO_QUEUE))
            store = self.stores.make(definition, keeps_all=True, batch_bytes=BATCH_BYTES)
            delayed = self.delayed[vhost] = DelayedMessages(vhost, store, self.clock, self)
        return delayed

    def publish_delayed(
        self, vhost: str, message: Message, removal: PendingRemoval, *, is_committed: bool
    ) -> bool:
        """Publish a message that is due; QueueError if its exchange was deleted."""
        now_ms = message.timestamp_ms

        def again() -> Message:
            stored = still_there(removal)
            return stored if is_committed else released(stored, now_ms)

        found = find_destinations(self.vhosts[vhost], message)
        return self.publish_to(found, removal, again, is_committed=is_committed)


def storage_refusal(error: ApiError | DirectoryOffline) -> QueueError:
    """The error that an AMQP client gets when the disk refuses a write."""
    return QueueError(Reason.RESOURCE_ERROR, f"the disk refuses the write: {error}")


def check_vhost(queues: QueueBroker, name: str) -> VirtualHost:
    """The virtual host of that name; NOT_ALLOWED, as in RabbitMQ, if it does not exist."""
    vhost = queues.vhosts.get(name)
    if vhost is None:
        raise QueueError(Reason.NOT_ALLOWED, f"vhost {name} not found")
    return vhost
