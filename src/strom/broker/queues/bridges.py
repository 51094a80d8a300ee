"""Bridges between AMQP and Kafka: exchanges that feed topics, and topics that feed exchanges."""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from strom.broker.partition import HostedTopic, Partition
from strom.broker.queues.bridge_letters import BridgeDeadLetters
from strom.broker.queues.from_topic import Delivery
from strom.broker.queues.to_topic import TopicFeed
from strom.broker.queues.topic_messages import message_from_record
from strom.broker.queues.topic_reader import TopicReader
from strom.model.errors import ApiError
from strom.model.topics import is_internal
from strom.queues.definitions import Cursor
from strom.queues.destinations import find_destinations
from strom.queues.errors import QueueError, precondition_failed
from strom.queues.message import Message
from strom.queues.queue import Queue
from strom.queues.receipts import Receipt
from strom.queues.virtual_host import (
    FROM_OFFSET,
    Exchange,
    VirtualHost,
    refuse_internal_topics,
)
from strom.wire.amqp.protocol import AmqpError
from strom.wire.kafka.records import Record

if TYPE_CHECKING:
    from strom.broker.queues.hub import QueueBroker

log = logging.getLogger(__name__)


class BridgedTopic(NamedTuple):
    """A topic that feeds an exchange."""

    name: str
    vhost: VirtualHost
    reader: TopicReader
    letters: BridgeDeadLetters


class Bridges:
    def __init__(self, queues: "QueueBroker") -> None:
        self._queues = queues
        self._feeds: dict[Exchange, TopicFeed] = {}
        self._joined: dict[Exchange, BridgedTopic] = {}
        queues.broker.on_topics_changed.append(self._topics_changed)

    async def declared(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """Connect a new exchange to its topics, which are created if they do not exist."""
        if exchange.to_topic is not None:
            await self._topic(exchange.to_topic)
            self.open_feed(exchange)
        if exchange.from_topic is not None:
            topic = await self._topic(exchange.from_topic)
            joined = self._join(vhost, exchange, exchange.from_topic)
            is_first = exchange.definition.arguments.get(FROM_OFFSET) == "first"
            joined.reader.begin(topic, from_first=is_first)
            joined.reader.has_moved = True
            # Otherwise a crash before the first cursor would skip the records since now.
            await self.note_positions()

    async def restored(self, vhost: VirtualHost, exchange: Exchange, cursor: Cursor | None) -> None:
        """Reconnect an exchange after a restart; it waits for a source topic that does not exist."""
        refuse_internal_topics(exchange)  # version 0.1.0 stored such exchanges
        if exchange.to_topic is not None:
            await self._topic(exchange.to_topic)
        if exchange.from_topic is not None:
            topic = self._queues.broker.find_topic(exchange.from_topic)
            reader = self._join(vhost, exchange, exchange.from_topic).reader
            if cursor is not None:
                reader.resume(topic, cursor)
            elif topic is not None:
                is_first = exchange.definition.arguments.get(FROM_OFFSET) == "first"
                reader.begin(topic, from_first=is_first)
            reader.has_moved = True

    def open_feed(self, exchange: Exchange) -> None:
        """Start to write what passes an exchange to its topic, if it has one.

        After a restart this comes first: delayed messages may be due, and messages expire, before
        anything else is ready.
        """
        name = exchange.to_topic
        if name is not None and not is_internal(name):
            find = self._queues.broker.find_topic
            self._feeds[exchange] = TopicFeed(
                name, lambda: find(name), self._queues.turn, self._queues.clock
            )

    async def _topic(self, name: str) -> HostedTopic:
        broker = self._queues.broker
        found = broker.find_topic(name)
        if found is not None:
            return found
        try:
            return await broker.create_topic(name, broker.settings.num_partitions, {})
        except ApiError as error:
            raise precondition_failed(f"topic {name!r} cannot be used: {error}") from error

    def _join(self, vhost: VirtualHost, exchange: Exchange, name: str) -> BridgedTopic:
        letters = BridgeDeadLetters(self._queues, exchange, name)
        reader = TopicReader(
            vhost.name,
            exchange.name,
            partial(self._deliveries, vhost, exchange, letters),
            lambda: vhost.exchanges.get(exchange.name) is exchange,
        )
        joined = self._joined[exchange] = BridgedTopic(name, vhost, reader, letters)
        return joined

    def _topics_changed(self) -> None:
        for joined in self._joined.values():
            joined.reader.follow(self._queues.broker.find_topic(joined.name))

    # --- from a topic --------------------------------------------------------------------------

    def _deliveries(
        self,
        vhost: VirtualHost,
        exchange: Exchange,
        letters: BridgeDeadLetters,
        partition: Partition,
        record: Record,
    ) -> Iterator[Delivery]:
        """The targets of a record: the dead letter topic if it cannot be routed."""
        try:
            message = message_from_record(
                exchange.name,
                record,
                self._queues.clock.now_ms(),
                max_body=self._queues.broker.settings.amqp_max_message_bytes,
            )
            found = find_destinations(vhost, message)
        except (QueueError, AmqpError, ValueError) as error:
            reason = str(error)
            yield Delivery(
                f"dead letter topic {letters.topic}",
                lambda receipt: letters.add(partition, record, reason, receipt),
            )
            return
        if found.is_delayed:
            yield Delivery("delayed messages", partial(self._delay, vhost, message))
        for queue in found.queues:
            yield Delivery(f"queue {queue.name}", partial(_enqueue, queue, found.message))
        for through in found.feeding:
            feed = self._feeds.get(through)
            if feed is not None:
                yield Delivery(f"exchange {through.name}", partial(_append, feed, found.message))

    def _delay(self, vhost: VirtualHost, message: Message, receipt: Receipt) -> bool:
        self._queues.delayed_of(vhost.name).add(message, receipt)
        return True

    # --- to a topic ----------------------------------------------------------------------------

    def feed(
        self,
        exchanges: Iterable[Exchange],
        message: Message,
        receipt: Receipt | None,
        again: Callable[[], Message | None] | None = None,
    ) -> bool:
        """Write a message to the topics of the exchanges that it passes."""
        fed = False
        for exchange in exchanges:
            feed = self._feeds.get(exchange)
            if feed is not None:
                feed.add(message, receipt, again)
                fed = True
        return fed

    def refusal(self, exchange: Exchange, message: Message) -> str | None:
        """Why the topic of an exchange would refuse this message; None if it would not."""
        feed = self._feeds.get(exchange)
        return None if feed is None else feed.refusal(message)

    # --- life ----------------------------------------------------------------------------------

    async def close(self, exchange: Exchange) -> None:
        """Stop the bridges of a deleted exchange."""
        feed = self._feeds.pop(exchange, None)
        if feed is not None:
            feed.close()
        joined = self._joined.pop(exchange, None)
        if joined is not None:
            joined.reader.stop()
            joined.letters.feed.close()
            await self._queues.topology.write(gone=[Cursor(joined.vhost.name, exchange.name)])

    async def note_positions(self) -> None:
        """Persist the cursors of topics that feed exchanges."""
        moved = [
            joined.reader
            for exchange, joined in self._joined.items()
            if joined.reader.has_moved and exchange.definition.durable
        ]
        cursors = [reader.cursor() for reader in moved]
        if cursors:
            try:
                await self._queues.topology.write(cursors)
            except ApiError as error:
                log.warning("Could not store the cursors of exchanges, which is retried: %s", error)
                for reader in moved:
                    reader.has_moved = True

    @property
    def stopped_by_damage(self) -> int:
        """How many partitions that feed exchanges cannot be read."""
        return sum(joined.reader.stopped_by_damage for joined in self._joined.values())

    def stop(self) -> None:
        for joined in self._joined.values():
            joined.reader.stop()
            joined.letters.feed.stop()
        for feed in self._feeds.values():
            feed.stop()


def _enqueue(queue: Queue, message: Message, receipt: Receipt) -> bool:
    if queue.publish(message, message.timestamp_ms, receipt):
        return True
    # With reject-publish-dlx a full queue has sent the message to its dead letter exchange.
    rules = queue.rules
    return rules.overflow == "reject-publish-dlx" and rules.dead_letter_exchange is not None


def _append(feed: TopicFeed, message: Message, receipt: Receipt) -> bool:
    feed.add(message, receipt)
    return True
