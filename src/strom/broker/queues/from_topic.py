"""An exchange that is fed by a topic: every record of it is routed to queues, by its key and headers.

How far each partition was read is noted down only after its records are safe in the queues. So after a
crash some may be routed again, and none is left out.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from strom.broker.partition import Partition
from strom.broker.replaying import committed_records
from strom.broker.topics import HostedTopic
from strom.model.clock import Clock
from strom.model.errors import ApiError, CorruptData
from strom.queues.message import Message
from strom.queues.properties import make_properties
from strom.queues.queue import Receipt
from strom.wire.kafka.records import Record

log = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
RETRY_SECONDS = 1.0


class BatchReceipt:
    """Waits until all messages of one read are safe."""

    is_patient = False

    def __init__(self, done: Callable[[bool], None]) -> None:
        self._done = done
        self._waiting = 1
        self._failed = False

    def expect(self) -> None:
        """One more queue has to make one safe."""
        self._waiting += 1

    def settle(self, *, safe: bool) -> None:
        """One has, or never will."""
        self._waiting -= 1
        self._failed = self._failed or not safe
        if not self._waiting:
            self._done(not self._failed)


class PartitionReader:
    """Routes the records of one partition, one read after the other."""

    def __init__(
        self,
        partition: Partition,
        position: int,
        exchange: str,
        publish: Callable[[Message, Receipt], None],
        moved: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.position = position
        """All before it is safe in the queues."""
        self._partition = partition
        self._exchange = exchange
        self._publish = publish
        self._moved = moved
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._is_reading = False
        self._stopped = False
        partition.wait_for_records(self)
        self._loop.call_soon(self.partition_changed)

    def stop(self) -> None:
        """Read no more."""
        self._stopped = True
        self._partition.stop_waiting(self)

    def partition_changed(self) -> None:
        """There may be more to read."""
        if not self._is_reading and not self._stopped and not self._partition.deleted:
            self._read()

    def _read(self) -> None:
        source = self._partition.log
        try:
            start = max(self.position, source.start_offset)
            if start >= source.last_stable_offset:
                return
            chunk = source.read(start, READ_BYTES, committed_only=True)
            records, after = committed_records(chunk, start, source.partition)
        except (ApiError, CorruptData) as error:
            log.warning("Exchange %r cannot read its topic: %s", self._exchange, error)
            self._loop.call_later(RETRY_SECONDS, self.partition_changed)
            return
        if after == start:
            return
        self._is_reading = True
        receipt = BatchReceipt(lambda safe: self._finish(after, safe))
        for record in records:
            self._publish(_message(self._exchange, record, self._clock.now_ms()), receipt)
        receipt.settle(safe=True)

    def _finish(self, after: int, safe: bool) -> None:
        self._is_reading = False
        if safe:
            self.position = after
            self._moved()
            self._loop.call_soon(self.partition_changed)
        else:
            self._loop.call_later(RETRY_SECONDS, self.partition_changed)


class TopicReader:
    """All partitions of the topic that feeds an exchange."""

    def __init__(
        self,
        topic: HostedTopic,
        positions: dict[int, int],
        exchange: str,
        publish: Callable[[Message, Receipt], None],
        clock: Clock,
        *,
        from_first: bool,
    ) -> None:
        self.has_moved = False
        self._readers = [
            PartitionReader(
                partition,
                positions.get(
                    index,
                    partition.log.start_offset if from_first else partition.log.high_watermark,
                ),
                exchange,
                publish,
                self._moved,
                clock,
            )
            for index, partition in enumerate(topic.partitions)
        ]

    def _moved(self) -> None:
        self.has_moved = True

    def positions(self) -> dict[int, int]:
        """How far each partition was read."""
        self.has_moved = False
        return {index: reader.position for index, reader in enumerate(self._readers)}

    def stop(self) -> None:
        """Read no more."""
        for reader in self._readers:
            reader.stop()


def _message(exchange: str, record: Record, now_ms: int) -> Message:
    key = (record.key or b"").decode("utf-8", "replace")
    properties = make_properties(dict(_texts(record)), timestamp_ms=record.timestamp)
    return Message(exchange, key[:255], properties, record.value or b"", now_ms)


def _texts(record: Record) -> Iterator[tuple[str, object]]:
    """Headers as AMQP has them: text where it is text."""
    for name, value in record.headers:
        try:
            yield name[:128], None if value is None else value.decode()
        except UnicodeDecodeError:
            yield name[:128], value
