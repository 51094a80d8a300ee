"""The stores of all queues, and the internal topics behind them."""

import asyncio
import logging

from strom.broker.broker import Broker
from strom.broker.partition import HostedTopic
from strom.broker.queues.message_cache import MemoryShare
from strom.broker.queues.slices import BackgroundTasks
from strom.broker.queues.store import BATCH_BYTES, QueueStore
from strom.broker.queues.turn import TickBatcher
from strom.model.errors import ApiError, DirectoryOffline, StorageError
from strom.queues.definitions import QueueDefinition
from strom.queues.queue import Queue

log = logging.getLogger(__name__)

QUEUE_TOPIC_SETTINGS = {
    "flush": "os",  # what must be durable is synced explicitly
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(64 * 1024 * 1024),
    "max.message.bytes": str(64 * 1024 * 1024),
    "file.delete.delay.ms": "1000",
}


class QueueStores:
    """Creates stores, and their topics when they need one, and deletes both."""

    def __init__(self, broker: Broker, turn: TickBatcher, tasks: BackgroundTasks) -> None:
        self.memory = MemoryShare()
        self._broker = broker
        self._turn = turn
        self._tasks = tasks
        self._definitions: dict[QueueStore, QueueDefinition] = {}

    def make(
        self,
        definition: QueueDefinition,
        *,
        keeps_all: bool = False,
        batch_bytes: int = BATCH_BYTES,
    ) -> QueueStore:
        """A store without a topic."""
        store = QueueStore(
            self._turn,
            self,
            self._broker.clock,
            self.memory,
            durable=definition.durable and not definition.exclusive,
            keeps_all=keeps_all,
            batch_bytes=batch_bytes,
        )
        self._definitions[store] = definition
        self.memory.divide(len(self._definitions))
        return store

    def used_topics(self) -> set[str]:
        """The topic names of all stores, also of topics that do not exist yet."""
        return {definition.topic for definition in self._definitions.values()}

    async def create_topic(self, name: str) -> HostedTopic:
        """Create the internal topic of a queue: its messages, and its progress."""
        return await self._broker.create_topic(name, 2, QUEUE_TOPIC_SETTINGS)

    def open_topic(self, store: QueueStore) -> None:
        """Create a topic for a store that exceeds its memory."""
        self._tasks.run(self._open_topic(store))

    async def _open_topic(self, store: QueueStore) -> None:
        definition = self._definitions[store]
        try:
            hosted = await self.create_topic(definition.topic)
        except ApiError as error:
            store.not_opened(error)
            return
        if store.log.closed:
            await self._broker.delete_topic(definition.topic)
        else:
            store.opened(hosted)

    def forget(self, store: QueueStore) -> None:
        """Delete the messages and the topic of a deleted queue."""
        store.close()
        self._definitions.pop(store, None)
        self.memory.divide(len(self._definitions))
        if store.log.topic is not None:
            self._tasks.run(self._broker.delete_topic(store.log.topic.topic.name))

    def forget_damaged(self, definition: QueueDefinition) -> None:
        """Delete the topic of a queue that was not served because its log is damaged."""
        [store] = [each for each, of in self._definitions.items() if of is definition]
        self.forget(store)

    async def loaded(self) -> None:
        """Return when corrections made at the start are durable, or cannot be for now."""
        for store in tuple(self._definitions):
            await store.log.loaded()

    def sync(self) -> None:
        """Sync to disk what was written without a publisher waiting for it."""
        for store in self._definitions:
            store.log.sync()

    async def trim(self) -> None:
        """Delete segments whose messages are all removed, and rewrite those with few others."""
        broker = self._broker
        for store in tuple(self._definitions):
            try:
                store.log.trim()
                if store.log.is_prunable:
                    store.write_progress()
                    await store.log.prune(broker.off_loop)
            except DirectoryOffline:
                raise
            except (ApiError, StorageError) as error:  # concerns one log: the others are trimmed
                log.warning("Could not trim the log of a queue, which is retried: %s", error)
            await asyncio.sleep(0)
        now_ms = broker.clock.now_ms()
        await broker.off_loop(lambda: broker.directory.remove_deleted_files(now_ms))


def store_of(queue: Queue) -> QueueStore:
    """The store that `QueueStores` created for a queue."""
    store = queue.store
    assert isinstance(store, QueueStore)  # noqa: S101 - queues of a broker have no other
    return store
