"""The two worlds joined: exchanges that feed topics, and topics that feed exchanges."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from strom.broker.queues.from_topic import TopicReader
from strom.broker.queues.to_topic import TopicFeed
from strom.broker.topics import HostedTopic
from strom.model.errors import ApiError
from strom.queues.definitions import Cursor
from strom.queues.message import Message
from strom.queues.queue import Receipt
from strom.queues.refusals import precondition_failed
from strom.queues.virtual_host import FROM_OFFSET, Exchange, VirtualHost

if TYPE_CHECKING:
    from strom.broker.queues.hub import MessageQueues


class Bridges:
    """What joins exchanges and topics."""

    def __init__(self, queues: "MessageQueues") -> None:
        self._queues = queues
        self._feeds: dict[Exchange, TopicFeed] = {}
        self._readers: dict[Exchange, tuple[VirtualHost, TopicReader]] = {}

    async def open(self, vhost: VirtualHost, exchange: Exchange, cursor: Cursor | None) -> None:
        """Join an exchange to its topics, which are made if they are not there."""
        name = exchange.to_topic
        if name is not None:
            await self._topic(name)
            find = self._queues.broker.find_topic
            self._feeds[exchange] = TopicFeed(
                name, lambda: find(name), self._queues.turn, self._queues.clock
            )
        if exchange.from_topic is not None:
            topic = await self._topic(exchange.from_topic)
            self._readers[exchange] = vhost, self._read(vhost, exchange, topic, cursor)

    async def _topic(self, name: str) -> HostedTopic:
        broker = self._queues.broker
        found = broker.find_topic(name)
        if found is not None:
            return found
        try:
            return await broker.create_topic(name, broker.settings.num_partitions, {})
        except ApiError as error:
            raise precondition_failed(f"there is no topic {name!r}: {error}") from error

    def _read(
        self, vhost: VirtualHost, exchange: Exchange, topic: HostedTopic, cursor: Cursor | None
    ) -> TopicReader:
        positions = cursor.positions if cursor is not None else {}
        return TopicReader(
            topic,
            {int(index): position for index, position in positions.items()},
            exchange.name,
            lambda message, receipt: self._route(vhost, message, receipt),
            self._queues.clock,
            from_first=exchange.definition.arguments.get(FROM_OFFSET) == "first",
        )

    def _route(self, vhost: VirtualHost, message: Message, receipt: Receipt) -> None:
        self._queues.publish(vhost, message, receipt)

    def feed(
        self,
        exchanges: Iterable[Exchange],
        message: Message,
        receipt: Receipt | None,
        again: Callable[[], Message | None] | None = None,
    ) -> bool:
        """Pass a message on to the topics of the exchanges that it goes through."""
        fed = False
        for exchange in exchanges:
            feed = self._feeds.get(exchange)
            if feed is not None:
                feed.add(message, receipt, again)
                fed = True
        return fed

    def refusal(self, exchange: Exchange, message: Message) -> str | None:
        """Why the topic of an exchange would refuse a message as it is; None if it would not."""
        feed = self._feeds.get(exchange)
        return None if feed is None else feed.refusal(message)

    async def close(self, exchange: Exchange) -> None:
        """The exchange is gone."""
        feed = self._feeds.pop(exchange, None)
        if feed is not None:
            feed.close()
        vhost, reader = self._readers.pop(exchange, (None, None))
        if vhost is not None and reader is not None:
            reader.stop()
            await self._queues.topology.write(gone=[Cursor(vhost.name, exchange.name)])

    async def note_positions(self) -> None:
        """Note down how far topics were read."""
        cursors = [
            Cursor(
                vhost.name,
                exchange.name,
                {str(index): position for index, position in reader.positions().items()},
            )
            for exchange, (vhost, reader) in self._readers.items()
            if reader.has_moved and exchange.definition.durable
        ]
        if cursors:
            await self._queues.topology.write(cursors)

    async def stop(self) -> None:
        """Read no more, and note down how far it went."""
        for _, reader in self._readers.values():
            reader.stop()
        for feed in self._feeds.values():
            feed.stop()
        await self.note_positions()
