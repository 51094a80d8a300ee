"""All message queues of a broker: takes messages in, and does what reaches beyond one queue."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from strom.broker.broker import Broker
from strom.broker.queues.bridges import Bridges
from strom.broker.queues.delayed import DelayedMessages
from strom.broker.queues.destinations import Destinations, find_destinations
from strom.broker.queues.naming import topic_of
from strom.broker.queues.slices import Slices
from strom.broker.queues.store import MemoryShare, QueueStore
from strom.broker.queues.topology import TopologyLog
from strom.broker.queues.turn import TickBatcher
from strom.model.errors import (
    ApiError,
    CorruptData,
    DirectoryOffline,
    ErrorCode,
    StorageError,
    StromError,
)
from strom.model.topics import QUEUE_TOPIC_PREFIX
from strom.queues.dead_letters import dead_letter, is_circle
from strom.queues.definitions import (
    QUEUE,
    Binding,
    Cursor,
    Definition,
    ExchangeDefinition,
    QueueDefinition,
    VirtualHostDefinition,
)
from strom.queues.delays import released
from strom.queues.errors import QueueError, Reason
from strom.queues.message import Message
from strom.queues.queue import PendingRemoval, Queue
from strom.queues.ready import FifoReady
from strom.queues.receipts import Receipt
from strom.queues.virtual_host import DEFAULT, VirtualHost

log = logging.getLogger(__name__)

DEFAULT_VHOST = "/"
NO_QUEUE = ""
"""No queue has this name; the log of delayed messages goes by it."""
QUEUE_TOPIC_SETTINGS = {
    "flush": "os",  # what must be safe is synced by name
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(64 * 1024 * 1024),
    "max.message.bytes": str(64 * 1024 * 1024),
    "file.delete.delay.ms": "1000",
}


class QueueBroker:
    """Virtual hosts with their exchanges and queues, at work."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.clock = broker.clock
        self.loop = asyncio.get_running_loop()
        self.vhosts: dict[str, VirtualHost] = {}
        self.topology = TopologyLog(broker)
        self.turn = TickBatcher(
            self._send_dead_letters, self._give_topic, self._set_blocked, broker.storage_failed
        )
        self.slices = Slices(self.loop)
        self.blocked: str | None = None
        """Why no messages are taken now."""
        self.when_blocked: list[Callable[[str | None], None]] = []
        self.damaged: dict[tuple[str, str], list[QueueDefinition | Binding]] = {}
        """Queues whose log cannot be read, by virtual host and name: what is known of them."""
        self._stores: dict[QueueStore, QueueDefinition] = {}
        self.memory = MemoryShare()
        self.bridges = Bridges(self)
        self._delayed: dict[str, DelayedMessages] = {}
        self._dead: list[tuple[Queue, Message, str, Receipt | None]] = []
        self._timers: dict[Queue, asyncio.TimerHandle] = {}
        self._stopping = False
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- life ----------------------------------------------------------------------------------

    async def load(self) -> None:
        """Bring everything to what the logs say; topics of queues that are no more are removed."""
        definitions = self.topology.read()
        self.add_vhost(DEFAULT_VHOST)
        for kind in (VirtualHostDefinition, ExchangeDefinition, QueueDefinition, Binding):
            for definition in definitions:
                if isinstance(definition, kind):
                    self._restore(definition)
        for name in self.vhosts:
            topic = self.broker.find_topic(topic_of(name, NO_QUEUE))
            if topic is not None:
                self.delayed_of(name).load(topic)
        for store in tuple(self._stores):
            await store.loaded()
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                queue.serve(self.clock.now_ms())  # what has expired meanwhile is dropped
        await self._restore_bridges(definitions)
        used = {definition.topic for definition in self._stores.values()}
        for hosted in self.broker.topics():
            name = hosted.topic.name
            if name.startswith(QUEUE_TOPIC_PREFIX) and name not in used:
                try:
                    await self.broker.delete_topic(name)
                except ApiError as error:
                    log.warning(
                        "%s belongs to no queue, and is deleted by a later start: %s", name, error
                    )

    def _restore(self, definition: Definition) -> None:
        match definition:
            case VirtualHostDefinition():
                self.add_vhost(definition.name)
            case ExchangeDefinition():
                exchange = self.vhosts[definition.vhost].add_exchange(definition)
                self.bridges.open_feed(exchange)
            case QueueDefinition():
                self._restore_queue(definition)
            case Binding():
                try:
                    self.vhosts[definition.vhost].bind(definition)
                except QueueError as error:
                    log.warning("A binding is left out: %s", error)
                    if definition.kind == QUEUE:
                        queue = definition.vhost, definition.destination
                        self.damaged.get(queue, []).append(definition)

    async def _restore_bridges(self, definitions: list[Definition]) -> None:
        cursors = {(one.vhost, one.exchange): one for one in definitions if isinstance(one, Cursor)}
        for vhost in self.vhosts.values():
            for exchange in vhost.exchanges.values():
                try:
                    cursor = cursors.get((vhost.name, exchange.name))
                    await self.bridges.restored(vhost, exchange, cursor)
                except QueueError as error:
                    log.warning("Exchange %r is not joined to its topic: %s", exchange.name, error)

    def _restore_queue(self, definition: QueueDefinition) -> None:
        hosted = self.broker.find_topic(definition.topic)
        if hosted is None:
            log.warning("Queue %r has lost its log, and is left out.", definition.name)
            return
        queue = self.make_queue(definition)
        store = queue.store
        assert isinstance(store, QueueStore)  # noqa: S101 - make_queue made it
        try:
            progress = store.load(hosted)
            ready = queue.ready
            if isinstance(ready, FifoReady):
                ready.restore(progress.acknowledged, progress.delivered, store.next_position)
            if not isinstance(ready, FifoReady) or queue.rules.max_length_bytes is not None:
                for position, message in store.live_messages():
                    if not isinstance(ready, FifoReady):
                        ready.push(position, message.priority)
                    queue.ready_bytes += len(message.body)
        except CorruptData as error:
            log.error(
                "Queue %r is not served: %s. Restore its log from a backup, or delete the queue.",
                definition.name,
                str(error).rstrip("."),
            )
            self.damaged[definition.vhost, definition.name] = [definition]
            return
        delivered = progress.delivered
        if not self.broker.directory.was_clean:
            # A power cut may have taken the note of what was delivered: better once too often.
            delivered = store.next_position
        queue.restore(redelivered_before=delivered, returns=progress.returned)
        self.vhosts[definition.vhost].add_queue(queue)

    def make_queue(self, definition: QueueDefinition) -> Queue:
        """A queue with a store of its own, not yet in its virtual host."""
        durable = definition.durable and not definition.exclusive
        store = QueueStore(self.turn, self.clock, self.memory, durable=durable)
        queue = Queue(definition, store, self)
        store.has_consumers = lambda: len(queue.consumers) > 0
        self._stores[store] = definition
        self.memory.divide(len(self._stores))
        return queue

    def add_vhost(self, name: str) -> VirtualHost:
        """A name space of its own."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            vhost = self.vhosts[name] = VirtualHost(name)
        return vhost

    async def stop(self) -> None:
        """Write what is to be written."""
        self._stopping = True  # what expires from now on does so after the next start
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        for delayed in self._delayed.values():
            delayed.stop()
        with contextlib.suppress(ApiError, StorageError):  # the disk may be why it stops
            await self.slices.finish()
        self.bridges.stop()
        self.turn.end()
        while self._dead:
            self.turn.end()
        await self.broker.commit.finish_all()
        self.turn.end()  # dead letters are safe now: write that their sources are gone
        with contextlib.suppress(ApiError, StorageError):  # the disk may be why it stops
            await self.bridges.note_positions()  # what topics sent is safe now, too
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=10)

    def run(self, work: Any) -> None:
        """Do something that takes a while; `stop` waits for it."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._work_is_done)

    def _work_is_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, DirectoryOffline):
            self.broker.storage_failed(error)
        elif error is not None:
            told = None if isinstance(error, StromError) else error
            log.error("Work on queues failed: %s", error, exc_info=told)

    # --- messages ------------------------------------------------------------------------------

    def publish(self, vhost: VirtualHost, message: Message, receipt: Receipt | None) -> bool:
        """Take a message in; False if no queue is bound for it."""
        headers = message.headers
        if headers is None and not vhost.has_feeds:
            queues = vhost.route(message.exchange, message.routing_key, None)
            for queue in queues:
                if (
                    not queue.publish(message, message.timestamp_ms, receipt)
                    and receipt is not None
                ):
                    receipt.expect()
                    receipt.settle(safe=False)
            return len(queues) > 0
        found = find_destinations(vhost, message)
        if found.is_delayed:
            self.delayed_of(vhost.name).add(message, receipt)
            return True
        return self._publish_to(found, receipt)

    def publish_committed(self, vhost: VirtualHost, message: Message) -> bool:
        """Publish a transient message of a committed transaction; False if no queue is bound for it."""
        try:
            return self._publish_to(find_destinations(vhost, message), None, is_committed=True)
        except QueueError as error:  # its exchange was there when the transaction was checked
            log.warning("A message of a transaction is dropped: %s", error)
            return False

    def _publish_to(
        self,
        found: Destinations,
        receipt: Receipt | None,
        again: Callable[[], Message | None] | None = None,
        *,
        is_committed: bool = False,
    ) -> bool:
        message = found.message
        for queue in found.queues:
            taken = queue.publish(message, message.timestamp_ms, receipt, is_committed=is_committed)
            # Who is patient waits for a disk, and not for a queue that is full: as in RabbitMQ, such a
            # queue drops a message that has no publisher to get a nack.
            if not taken and receipt is not None and not receipt.is_patient:
                receipt.expect()
                receipt.settle(safe=False)
        fed = self.bridges.feed(found.feeding, message, receipt, again)
        return fed or len(found.queues) > 0

    def delayed_of(self, vhost: str) -> DelayedMessages:
        """What is to be published later in a virtual host."""
        delayed = self._delayed.get(vhost)
        if delayed is None:
            delayed = DelayedMessages(
                self.turn,
                self.clock,
                self.memory,
                lambda *delayed: self._publish_delayed(vhost, *delayed),
            )
            self._delayed[vhost] = delayed
            topic = topic_of(vhost, NO_QUEUE)
            self._stores[delayed.store] = QueueDefinition(vhost, NO_QUEUE, topic=topic)
        return delayed

    def _publish_delayed(
        self, vhost: str, message: Message, departure: PendingRemoval, is_committed: bool
    ) -> bool:
        """The time of a message has come; its exchange may be gone by now."""
        now_ms = message.timestamp_ms

        def again() -> Message:
            stored = _still_there(departure)
            return stored if is_committed else released(stored, now_ms)

        try:
            found = find_destinations(self.vhosts[vhost], message)
        except QueueError as error:
            log.warning("A delayed message is dropped: %s", error)
            return False
        return self._publish_to(found, departure, again, is_committed=is_committed)

    def give_up(self, queue: Queue, message: Message, reason: str, receipt: Receipt | None) -> None:
        """A queue lets a message go; it may have to be sent on."""
        if queue.rules.dead_letter_exchange is not None:
            if receipt is not None:
                receipt.expect()
            self._dead.append((queue, message, reason, receipt))
            self.turn.soon()

    def _send_dead_letters(self) -> None:
        """Send on what was given up; what is given up for it, by queues that are full, the next turn."""
        dead, self._dead = self._dead, []
        for queue, message, reason, receipt in dead:
            self._send_dead_letter(queue, message, reason, receipt)
            if receipt is not None:
                receipt.settle(safe=True)

    def _send_dead_letter(
        self, queue: Queue, message: Message, reason: str, receipt: Receipt | None
    ) -> None:
        vhost = self.vhosts[queue.definition.vhost]
        exchange = queue.rules.dead_letter_exchange
        assert exchange is not None  # noqa: S101 - give_up looked
        if exchange != DEFAULT and exchange not in vhost.exchanges:
            return
        now_ms = self.clock.now_ms()

        def letter_of(message: Message) -> Message:
            return dead_letter(
                message,
                queue=queue.name,
                reason=reason,
                exchange=exchange,
                routing_key=queue.rules.dead_letter_routing_key,
                now_ms=now_ms,
            )

        def again() -> Message | None:
            assert isinstance(receipt, PendingRemoval)  # noqa: S101 - no other has it
            return None if queue.deleted else letter_of(_still_there(receipt))

        letter = letter_of(message)
        for target in vhost.route(letter.exchange, letter.routing_key, letter.headers):
            if not is_circle(letter, target.name):
                target.publish(letter, letter.timestamp_ms, receipt)
        if vhost.has_feeds:
            passed = vhost.exchanges_passed(letter.exchange, letter.routing_key, letter.headers)
            can_repeat = isinstance(receipt, PendingRemoval)
            self.bridges.feed(passed, letter, receipt, again if can_repeat else None)

    # --- time ----------------------------------------------------------------------------------

    def wake(self, queue: Queue, at_ms: int) -> None:
        """Look at a queue's head again at that time."""
        running = self._timers.pop(queue, None)
        if running is not None:
            running.cancel()
        if self._stopping:
            return
        delay = max(0, at_ms - self.clock.now_ms()) / 1000
        self._timers[queue] = self.loop.call_later(delay, self._wake, queue)

    def _wake(self, queue: Queue) -> None:
        """Have expired messages dropped in turn with other long work: many queues may wake at once."""
        self._timers.pop(queue, None)

        def step() -> bool:
            if not queue.deleted and not self._stopping:
                queue.woken(self.clock.now_ms())
            return False  # if there is more, it asks to be woken again

        self.slices.add(step)

    async def sync(self) -> None:
        """Have what was written without anyone waiting for it synced to disk."""
        for store in self._stores:
            store.sync()

    async def trim(self) -> None:
        """Drop segments that nobody needs any more, and rewrite those of which little is needed."""
        for store in tuple(self._stores):
            try:
                store.trim()
                await store.prune(self.broker.off_loop)
            except DirectoryOffline:
                raise
            except (ApiError, StorageError) as error:  # of one log: no trouble for the others
                log.warning("The log of a queue is trimmed later: %s", error)
            await asyncio.sleep(0)
        now_ms = self.clock.now_ms()
        await self.broker.off_loop(lambda: self.broker.directory.remove_deleted_files(now_ms))

    # --- topics --------------------------------------------------------------------------------

    async def create_topic(self, name: str) -> Any:
        """The internal topic of a queue: messages, and which are gone."""
        return await self.broker.create_topic(name, 2, QUEUE_TOPIC_SETTINGS)

    def _give_topic(self, store: QueueStore) -> None:
        """A queue that was in memory only has too much for it."""
        self.run(self._open_topic(store))

    async def _open_topic(self, store: QueueStore) -> None:
        definition = self._stores[store]
        try:
            hosted = await self.create_topic(definition.topic)
        except ApiError as error:
            store.not_opened(error)
            return
        if store.closed:
            await self.broker.delete_topic(definition.topic)
        else:
            store.opened(hosted)

    def forget(self, queue: Queue) -> None:
        """A queue is gone: so is its log."""
        store = queue.store
        assert isinstance(store, QueueStore)  # noqa: S101 - make_queue made it
        running = self._timers.pop(queue, None)
        if running is not None:
            running.cancel()
        self._forget_store(store)

    def forget_damaged(self, definition: QueueDefinition) -> None:
        """The same for a queue that was never served."""
        [store] = [each for each, of in self._stores.items() if of is definition]
        self._forget_store(store)

    def _forget_store(self, store: QueueStore) -> None:
        store.close()
        self._stores.pop(store, None)
        self.memory.divide(len(self._stores))
        if store.topic is not None:
            self.run(self.broker.delete_topic(store.topic.topic.name))

    # --- trouble -------------------------------------------------------------------------------

    def _set_blocked(self, reason: str | None) -> None:
        self.blocked = reason
        for tell in self.when_blocked:
            tell(reason)


def _still_there(departure: PendingRemoval) -> Message:
    """The message that is to leave its place; ApiError if it cannot be read now."""
    message = departure.message()
    if message is None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "The message cannot be read at the moment.")
    return message


def storage_refusal(error: ApiError | DirectoryOffline) -> QueueError:
    """How trouble with the disk is put to a client of queues."""
    return QueueError(Reason.RESOURCE_ERROR, f"the disk does not take it: {error}")


def check_vhost(queues: QueueBroker, name: str) -> VirtualHost:
    """The virtual host of that name, or NOT_ALLOWED."""
    vhost = queues.vhosts.get(name)
    if vhost is None:
        raise QueueError(Reason.NOT_ALLOWED, f"vhost {name} not found")
    return vhost
