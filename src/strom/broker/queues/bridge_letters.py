"""Records that cannot become messages go unchanged to a dead letter topic, with headers that say why."""

import logging
from typing import TYPE_CHECKING

from strom.broker.dead_letters import PREFIX
from strom.broker.partition import Partition
from strom.broker.queues.to_topic import TopicFeed
from strom.model.errors import ApiError
from strom.model.topics import MAX_TOPIC_NAME_LENGTH
from strom.queues.receipts import Receipt
from strom.queues.virtual_host import DEAD_LETTER_TOPIC, Exchange
from strom.wire.kafka.records import Record

if TYPE_CHECKING:
    from strom.broker.queues.hub import QueueBroker

log = logging.getLogger(__name__)

DEFAULT_PREFIX = "dlq."
ROOM_FOR_NOTES = 64 * 1024
"""By how much a dead letter may be larger than its record."""


class BridgeDeadLetters:
    """The dead letter topic of an exchange that a topic feeds."""

    def __init__(self, queues: "QueueBroker", exchange: Exchange, source: str) -> None:
        self._queues = queues
        self._exchange = exchange.name
        self._source = source
        prefix = queues.broker.settings.dead_letter_topic_prefix or DEFAULT_PREFIX
        chosen = exchange.definition.arguments.get(DEAD_LETTER_TOPIC)
        self.topic: str = chosen or f"{prefix}{source}"[:MAX_TOPIC_NAME_LENGTH]
        self.feed = TopicFeed(
            self.topic,
            lambda: queues.broker.find_topic(self.topic),
            queues.turn,
            queues.clock,
        )
        self._is_creating = False
        self._has_complained = False

    def add(self, partition: Partition, record: Record, reason: str, receipt: Receipt) -> bool:
        """Write a record with the reason; False if the topic does not exist yet."""
        if self._queues.broker.find_topic(self.topic) is None:
            if not self._is_creating:
                self._is_creating = True
                self._queues.tasks.run(self._create())
            return False
        origin = partition.log.partition
        notes = {
            "topic": origin.topic,
            "partition": origin.partition,
            "offset": record.offset,
            "exchange": self._exchange,
            "message": reason,
        }
        headers = tuple(
            (PREFIX + name, str(value).encode("utf-8", "surrogateescape"))
            for name, value in notes.items()
        )
        log.info(
            "Dead letter: record %d of %s in %s: %s", record.offset, origin, self.topic, reason
        )
        letter = record._replace(headers=record.headers + headers)
        self.feed.add_record(letter, receipt, origin.partition)
        return True

    async def _create(self) -> None:
        broker = self._queues.broker
        source = broker.find_topic(self._source)
        largest = (broker.topic_defaults if source is None else source.settings).max_message_bytes
        configs = {"max.message.bytes": str(min(largest + ROOM_FOR_NOTES, 2**31 - 1))}
        try:
            if not broker.settings.dead_letter_auto_create:
                self._complain("errors.deadletterqueue.auto.create.topics.enable is false")
                return
            await broker.create_topic(self.topic, broker.settings.num_partitions, configs)
            self._has_complained = False
        except ApiError as error:
            self._complain(str(error))
        finally:
            self._is_creating = False

    def _complain(self, reason: str) -> None:
        if not self._has_complained:
            self._has_complained = True
            log.warning(
                "Exchange %r needs the dead letter topic %s, which cannot be created: %s. "
                "Records that cannot be routed wait for it; create it, or fix the cause.",
                self._exchange,
                self.topic,
                reason.rstrip("."),
            )
