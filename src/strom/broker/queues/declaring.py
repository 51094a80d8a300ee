"""Declaring and deleting exchanges, queues and bindings, with the errors that RabbitMQ raises.

A durable change is on disk before it takes effect. Such changes are made one at a time.
"""

import asyncio
import secrets
from dataclasses import replace
from typing import Any

from strom.broker.queues.hub import QueueBroker, storage_refusal
from strom.broker.queues.naming import topic_of
from strom.broker.queues.queue_stores import store_of
from strom.model.errors import ApiError
from strom.queues.arguments import differing_argument
from strom.queues.definitions import (
    EXCHANGE,
    QUEUE,
    Binding,
    ExchangeDefinition,
    QueueDefinition,
)
from strom.queues.errors import QueueError, Reason, access_refused, precondition_failed
from strom.queues.queue import Queue
from strom.queues.virtual_host import (
    ALTERNATE,
    DEFAULT,
    Exchange,
    VirtualHost,
    refuse_internal_topics,
)

RESERVED = "amq."


class Declarations:
    """The requests of clients that change the topology."""

    def __init__(self, queues: QueueBroker) -> None:
        self._queues = queues
        self._changing = asyncio.Lock()
        self._expiry: dict[Queue, asyncio.TimerHandle] = {}

    # --- exchanges -----------------------------------------------------------------------------

    async def declare_exchange(
        self, vhost: VirtualHost, wanted: ExchangeDefinition, *, passive: bool
    ) -> None:
        """Create an exchange, or check that the existing one is equivalent."""
        if passive:
            vhost.exchange(wanted.name)
            return
        async with self._changing:
            found = vhost.exchanges.get(wanted.name)
            if found is not None:
                _check_same_exchange(found.definition, wanted)
                return
            if wanted.name.startswith(RESERVED):
                raise access_refused(
                    f"exchange name '{wanted.name}' contains reserved prefix 'amq.*'"
                )
            refuse_internal_topics(Exchange(wanted))  # raises for an unknown type
            if wanted.durable:
                await self._write([wanted])
            exchange = vhost.add_exchange(wanted)
            await self._queues.bridges.declared(vhost, exchange)

    async def delete_exchange(self, vhost: VirtualHost, name: str, *, if_unused: bool) -> None:
        """Delete an exchange with its bindings, if it exists."""
        _refuse_default(name)
        if name.startswith(RESERVED):
            raise access_refused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        async with self._changing:
            exchange = vhost.exchanges.get(name)
            if exchange is None:
                return
            if if_unused and not vhost.is_unused(exchange):
                raise precondition_failed(f"exchange '{name}' in vhost '{vhost.name}' in use")
            await self._remove_exchange(vhost, exchange)

    async def _remove_exchange(self, vhost: VirtualHost, exchange: Exchange) -> None:
        gone = vhost.remove_exchange(exchange)
        if exchange.definition.durable:
            await self._write([], [exchange.definition, *gone])
        await self._queues.bridges.close(exchange)
        await self._unbound(vhost, gone)

    # --- queues --------------------------------------------------------------------------------

    async def declare_queue(
        self, vhost: VirtualHost, wanted: QueueDefinition, owner: object, *, passive: bool
    ) -> Queue:
        """Create a queue, or check that the existing one is equivalent."""
        if passive:
            return self.usable(vhost, wanted.name, owner)
        async with self._changing:
            found = vhost.queues.get(wanted.name)
            if found is not None:
                self.usable(vhost, wanted.name, owner)
                _check_same_queue(found.definition, wanted)
                self.touch(found)
                return found
            return await self._make_queue(vhost, wanted, owner)

    async def _make_queue(
        self, vhost: VirtualHost, wanted: QueueDefinition, owner: object
    ) -> Queue:
        name = wanted.name
        if (vhost.name, name) in self._queues.damaged:
            raise precondition_failed(
                f"the log of queue '{name}' in vhost '{vhost.name}' is damaged: "
                "restore it from a backup, or delete the queue"
            )
        if name.startswith(RESERVED):
            raise access_refused(f"queue name '{name}' contains reserved prefix 'amq.*'")
        name = name or f"amq.gen-{secrets.token_urlsafe(16)}"
        definition = replace(wanted, name=name, topic=self._free_topic(vhost, name))
        queue = self._queues.make_queue(definition)
        if wanted.exclusive:
            queue.owner = owner
        elif wanted.durable:
            try:
                hosted = await self._queues.stores.create_topic(definition.topic)
            except ApiError as error:
                raise storage_refusal(error) from error
            store_of(queue).opened(hosted)
            await self._write([definition])
        vhost.add_queue(queue)
        self.touch(queue)
        return queue

    def _free_topic(self, vhost: VirtualHost, name: str) -> str:
        attempt = 0
        while self._queues.broker.find_topic(topic := topic_of(vhost.name, name, attempt)):
            attempt += 1
        return topic

    def usable(self, vhost: VirtualHost, name: str, owner: object) -> Queue:
        """A queue that a connection may use; RESOURCE_LOCKED if it is exclusive to another."""
        queue = vhost.queue(name)
        if queue.owner is not None and queue.owner is not owner:
            raise QueueError(
                Reason.RESOURCE_LOCKED,
                f"cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost.name}'",
            )
        return queue

    async def delete_queue(
        self, vhost: VirtualHost, queue: Queue, *, if_unused: bool = False, if_empty: bool = False
    ) -> int:
        """Delete a queue; return the number of its messages."""
        if if_unused and len(queue.consumers):
            raise precondition_failed(f"queue '{queue.name}' in vhost '{vhost.name}' in use")
        if if_empty and queue.waiting:
            raise precondition_failed(f"queue '{queue.name}' in vhost '{vhost.name}' not empty")
        if queue.deleted:
            return 0
        count = queue.waiting
        queue.deleted = True
        gone = vhost.remove_queue(queue)
        self._stop_expiry(queue)
        for consumer in queue.consumers:
            consumer.outlet.consumer_cancelled(consumer)
        async with self._changing:
            if queue.definition.durable and not queue.definition.exclusive:
                await self._write([], [queue.definition, *gone])
            self._queues.forget(queue)
            await self._unbound(vhost, gone)
        return count

    async def delete_damaged_queue(self, vhost: VirtualHost, name: str) -> None:
        """Delete a queue that is not served because its log is damaged, if there is one."""
        async with self._changing:
            known = self._queues.damaged.pop((vhost.name, name), [])
            await self._write([], known)
            for definition in known:
                if isinstance(definition, QueueDefinition):
                    self._queues.stores.forget_damaged(definition)

    # --- bindings ------------------------------------------------------------------------------

    async def bind(self, vhost: VirtualHost, binding: Binding) -> None:
        _refuse_default_in(binding)
        async with self._changing:
            if vhost.bind(binding) and _is_durable(vhost, binding):
                await self._write([binding])

    async def unbind(self, vhost: VirtualHost, binding: Binding) -> None:
        """Delete a binding, if it exists."""
        _refuse_default_in(binding)
        async with self._changing:
            durable = _is_durable(vhost, binding)
            if vhost.unbind(binding):
                if durable:
                    await self._write([], [binding])
                await self._unbound(vhost, [binding])

    async def _unbound(self, vhost: VirtualHost, gone: list[Binding]) -> None:
        """Delete auto-delete exchanges that have lost their last binding."""
        for name in {binding.source for binding in gone}:
            exchange = vhost.exchanges.get(name)
            if exchange is None or not exchange.definition.auto_delete:
                continue
            if exchange.was_bound and vhost.is_unused(exchange):
                await self._remove_exchange(vhost, exchange)

    # --- queues that go by themselves ----------------------------------------------------------

    def consumer_left(self, vhost: VirtualHost, queue: Queue) -> None:
        """Delete an auto-delete queue that has lost its last consumer."""
        if queue.definition.auto_delete and not len(queue.consumers) and not queue.deleted:
            self._queues.tasks.run(self.delete_queue(vhost, queue))
        else:
            self.touch(queue)

    def touch(self, queue: Queue) -> None:
        """Restart the expiry of a queue with `x-expires`: it was used."""
        lasts_ms = queue.rules.expires_ms
        if lasts_ms is not None and not queue.deleted:
            self._stop_expiry(queue)
            self._expiry[queue] = self._queues.loop.call_later(
                lasts_ms / 1000, self._maybe_expire, queue
            )

    def _maybe_expire(self, queue: Queue) -> None:
        if len(queue.consumers):
            self.touch(queue)
        elif not queue.deleted:
            vhost = self._queues.vhosts[queue.definition.vhost]
            self._queues.tasks.run(self.delete_queue(vhost, queue))

    def _stop_expiry(self, queue: Queue) -> None:
        running = self._expiry.pop(queue, None)
        if running is not None:
            running.cancel()

    def resume(self) -> None:
        """Start the expiry of queues after a restart."""
        for vhost in self._queues.vhosts.values():
            for queue in vhost.queues.values():
                self.touch(queue)

    def stop(self) -> None:
        """Nothing expires any more."""
        for queue in tuple(self._expiry):
            self._stop_expiry(queue)

    async def _write(self, there: list[Any], gone: list[Any] | None = None) -> None:
        try:
            await self._queues.topology.write(there, gone or [])
        except ApiError as error:
            raise storage_refusal(error) from error


def _refuse_default(name: str) -> None:
    if name == DEFAULT:
        raise access_refused("operation not permitted on the default exchange")


def _refuse_default_in(binding: Binding) -> None:
    _refuse_default(binding.source)
    if binding.kind == EXCHANGE:
        _refuse_default(binding.destination)


def _is_durable(vhost: VirtualHost, binding: Binding) -> bool:
    if not vhost.exchange(binding.source).definition.durable:
        return False
    if binding.kind == QUEUE:
        queue = vhost.queue(binding.destination).definition
        return queue.durable and not queue.exclusive
    return vhost.exchange(binding.destination).definition.durable


def _check_same_exchange(found: ExchangeDefinition, wanted: ExchangeDefinition) -> None:
    for name in ("type", "durable", "auto_delete", "internal"):
        _check_same("exchange", found, wanted, name)
    _check_same("exchange", found, wanted, ALTERNATE, of_arguments=True)


def _check_same_queue(found: QueueDefinition, wanted: QueueDefinition) -> None:
    for name in ("durable", "exclusive", "auto_delete"):
        _check_same("queue", found, wanted, name)
    differs = differing_argument(found.arguments, wanted.arguments)
    if differs is not None:
        _check_same("queue", found, wanted, differs, of_arguments=True)


def _check_same(
    kind: str, found: Any, wanted: Any, name: str, *, of_arguments: bool = False
) -> None:
    if of_arguments:
        now, asked = found.arguments.get(name), wanted.arguments.get(name)
    else:
        now, asked = getattr(found, name), getattr(wanted, name)
    if now != asked:
        raise precondition_failed(
            f"inequivalent arg '{name}' for {kind} '{found.name}' in vhost '{found.vhost}': "
            f"received '{_shown(asked)}' but current is '{_shown(now)}'"
        )


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
