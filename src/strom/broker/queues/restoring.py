"""Restoring exchanges, queues, bindings and bridges from the logs at start."""

import logging
from typing import TYPE_CHECKING

from strom.broker.queues.naming import DEFAULT_VHOST, NO_QUEUE, topic_of
from strom.broker.queues.queue_stores import store_of
from strom.model.errors import ApiError, CorruptData
from strom.model.topics import QUEUE_TOPIC_PREFIX
from strom.queues.definitions import (
    QUEUE,
    Binding,
    Cursor,
    Definition,
    ExchangeDefinition,
    QueueDefinition,
    VirtualHostDefinition,
)
from strom.queues.errors import QueueError
from strom.queues.progress_records import QueueProgress
from strom.queues.queue import Queue
from strom.queues.ready import FifoReady

if TYPE_CHECKING:
    from strom.broker.queues.hub import QueueBroker

log = logging.getLogger(__name__)


async def restore(queues: "QueueBroker") -> None:
    """Restore the state in the logs; topics of deleted queues are removed."""
    definitions = queues.topology.read()
    queues.add_vhost(DEFAULT_VHOST)
    # Each type refers to those before it.
    for kind in (VirtualHostDefinition, ExchangeDefinition, QueueDefinition, Binding):
        for definition in definitions:
            if isinstance(definition, kind):
                _restore(queues, definition)
    for name in queues.vhosts:
        topic = queues.broker.find_topic(topic_of(name, NO_QUEUE))
        if topic is not None:
            queues.delayed_of(name).load(topic)
    await queues.stores.loaded()
    now_ms = queues.clock.now_ms()
    for vhost in queues.vhosts.values():
        for queue in vhost.queues.values():
            queue.serve(now_ms)  # drops what has expired meanwhile
    await _restore_bridges(queues, definitions)
    await _delete_unused_topics(queues)


def _restore(queues: "QueueBroker", definition: Definition) -> None:
    match definition:
        case VirtualHostDefinition():
            queues.add_vhost(definition.name)
        case ExchangeDefinition():
            exchange = queues.vhosts[definition.vhost].add_exchange(definition)
            queues.bridges.open_feed(exchange)
        case QueueDefinition():
            _restore_queue(queues, definition)
        case Binding():
            try:
                queues.vhosts[definition.vhost].bind(definition)
            except QueueError as error:
                log.warning("Skipped a binding: %s", error)
                if definition.kind == QUEUE:
                    queue = definition.vhost, definition.destination
                    queues.damaged.get(queue, []).append(definition)


def _restore_queue(queues: "QueueBroker", definition: QueueDefinition) -> None:
    hosted = queues.broker.find_topic(definition.topic)
    if hosted is None:
        log.warning("Skipped queue %r: its log is missing.", definition.name)
        return
    queue = queues.make_queue(definition)
    store = store_of(queue)
    try:
        progress = store.load(hosted)
        _restore_ready(queue, progress)
    except CorruptData as error:
        log.error(
            "Queue %r is not served: %s. Restore its log from a backup, or delete the queue.",
            definition.name,
            str(error).rstrip("."),
        )
        queues.damaged[definition.vhost, definition.name] = [definition]
        return
    delivered = progress.delivered
    if not queues.broker.directory.was_clean:
        # A power cut may have lost which messages were delivered: mark rather too many as redelivered.
        delivered = store.next_position
    queue.restore(redelivered_before=delivered, returns=progress.returned)
    queues.vhosts[definition.vhost].add_queue(queue)


def _restore_ready(queue: Queue, progress: QueueProgress) -> None:
    """Restore the ready messages, which are read only if their sizes or priorities are needed."""
    store, ready = store_of(queue), queue.ready
    if isinstance(ready, FifoReady):
        ready.restore(progress.acknowledged, progress.delivered, store.next_position)
    if not isinstance(ready, FifoReady) or queue.rules.max_length_bytes is not None:
        for position, message in store.log.live_messages():
            if not isinstance(ready, FifoReady):
                ready.push(position, message.priority)
            queue.backlog.size += len(message.body)


async def _restore_bridges(queues: "QueueBroker", definitions: list[Definition]) -> None:
    cursors = {(one.vhost, one.exchange): one for one in definitions if isinstance(one, Cursor)}
    for vhost in queues.vhosts.values():
        for exchange in vhost.exchanges.values():
            try:
                cursor = cursors.get((vhost.name, exchange.name))
                await queues.bridges.restored(vhost, exchange, cursor)
            except QueueError as error:
                log.warning("Exchange %r is not connected to its topic: %s", exchange.name, error)


async def _delete_unused_topics(queues: "QueueBroker") -> None:
    used = queues.stores.used_topics()
    for hosted in queues.broker.topics():
        name = hosted.topic.name
        if name.startswith(QUEUE_TOPIC_PREFIX) and name not in used:
            try:
                await queues.broker.delete_topic(name)
            except ApiError as error:
                log.warning(
                    "Could not delete %s, which belongs to no queue; the next start retries: %s",
                    name,
                    error,
                )
