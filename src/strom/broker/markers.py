"""Writes the commit and abort markers of transactions."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from strom.broker.broker import Broker
from strom.broker.groups import Groups
from strom.broker.partition import Partition
from strom.broker.turns import TurnQueue
from strom.coordination.transactions.commands import Markers
from strom.coordination.transactions.records import LAST_EPOCH, NO_EPOCH
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.model.topics import CONSUMER_OFFSETS_TOPIC, TopicPartition
from strom.storage.log import Appended
from strom.storage.producer_state import ProducerInfo
from strom.wire.kafka.records import ControlType, Marker, build_marker

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""The retry interval after a temporary failure, such as a full disk."""
MAX_AT_ONCE = 20
"""Markers, of all transactions, that are appended in one turn of the event loop: a few milliseconds.

Thousands of transactions may end at the same time, for example by their timeouts.
"""


class MarkerWriter:
    """Appends markers, and reports when they are durable."""

    def __init__(self, broker: Broker, groups: Groups, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._groups = groups
        self._loop = loop
        self._stopped = False
        self._turns = TurnQueue(loop, MAX_AT_ONCE)

    def stop(self) -> None:
        """Write no more; the next start does what is left."""
        self._stopped = True
        self._turns.stop()

    def write(self, markers: Markers, decided_in: Partition, on_done: Callable[[], None]) -> None:
        """Write the markers to all partitions, with retries, and call back when they are durable.

        `decided_in` is the partition of `__transaction_state`: its leader epoch is the coordinator epoch.
        """
        kind = ControlType.COMMIT if markers.commit else ControlType.ABORT
        marker = Marker(kind, decided_in.leader_epoch)
        is_durable = decided_in.log.settings.flush == "disk"
        PendingMarkers(self, markers, marker, on_done, is_durable).begin(markers.partitions)

    def append(
        self, partition: Partition, marker: Marker, producer_id: int, epoch: int
    ) -> Appended:
        """Write one marker; ApiError if that fails."""
        batch = build_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=self._broker.clock.now_ms(),
        )
        try:
            if partition.log.partition.topic == CONSUMER_OFFSETS_TOPIC:
                appended = self._groups.write_marker(marker, producer_id, partition, batch)
            else:
                now_ms = self._broker.clock.now_ms()
                appended = partition.append(batch, now_ms, from_client=False)
        except DirectoryOffline as error:
            self._broker.storage_failed(error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        partition.count_marker(len(batch))
        return appended

    def abort_orphans(self, known: Mapping[tuple[int, TopicPartition], int]) -> None:
        """Abort open transactions that the coordinator does not know (see `transactions.py`).

        `known` has the epoch of each producer that may write to a partition.
        """
        for partition in self._broker.all_partitions():
            if partition.log.quarantined or not partition.log.has_open_transactions:
                continue
            name = partition.log.partition
            for producer in partition.log.producers():
                if producer.transaction_first_offset is None:
                    continue
                if producer.producer_epoch > known.get((producer.producer_id, name), NO_EPOCH):
                    log.warning(
                        "An open transaction in %s that the coordinator does not know is aborted",
                        name,
                    )
                    self._abort_orphan(partition, producer)

    def _abort_orphan(self, partition: Partition, producer: ProducerInfo) -> None:
        if partition.deleted or producer not in partition.log.producers():
            return  # it has ended meanwhile
        # A bumped epoch, so that the producer's next batch is not taken for a duplicate.
        epoch = min(producer.producer_epoch + 1, LAST_EPOCH)
        marker = Marker(ControlType.ABORT, partition.leader_epoch)
        try:
            self.append(partition, marker, producer.producer_id, epoch)
        except ApiError as error:
            log.warning(
                "The abort marker of %s will be retried: %s", partition.log.partition, error
            )
            self.retry_later(lambda: self._abort_orphan(partition, producer))

    def find(self, partition: TopicPartition) -> Partition | None:
        """The partition, unless it was deleted."""
        hosted = self._broker.find_topic(partition.topic)
        if hosted is None or partition.partition >= len(hosted.partitions):
            return None
        return hosted.partitions[partition.partition]

    def do(self, work: Callable[[], None]) -> None:
        """Do what takes as long as a marker: now, or soon."""
        if not self._stopped:
            self._turns.do(work)

    def retry_later(self, work: Callable[[], None]) -> None:
        if not self._stopped:
            self._loop.call_later(RETRY_S, lambda: None if self._stopped else work())


class PendingMarkers:
    """The markers of one transaction, until all are durable."""

    def __init__(
        self,
        writer: MarkerWriter,
        markers: Markers,
        marker: Marker,
        on_done: Callable[[], None],
        is_durable: bool,
    ) -> None:
        self._is_durable = is_durable
        self._writer = writer
        self._markers = markers
        self._marker = marker
        self._on_done = on_done
        self._not_durable = 0
        self._again: set[TopicPartition] = set()
        self._reported: set[TopicPartition] = set()

    def begin(self, partitions: frozenset[TopicPartition]) -> None:
        """Append all markers; holds one count itself, so that completion is not reported early."""
        self._not_durable = 1
        self._again = set()
        for name in sorted(partitions):
            self._writer.do(partial(self._append, name))
        self._writer.do(self._on_marker_durable)

    def _append(self, name: TopicPartition) -> None:
        markers, partition = self._markers, self._writer.find(name)
        if partition is None:
            return
        try:
            appended = self._writer.append(
                partition, self._marker, markers.producer_id, markers.epoch
            )
        except ApiError as error:
            if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                return  # a later producer's marker has ended its transaction
            if partition.log.quarantined and not markers.commit:
                return  # once it can be read again, an open transaction without a decision is aborted
            self._again.add(name)
            self._report(name, error)
            return
        if not self._is_durable and partition.is_durable(appended):
            return
        self._not_durable += 1
        # Durable even if the topic has flush=os: otherwise a crash could leave a transaction open
        # here that is complete for the coordinator.
        partition.on_durable(appended, lambda code: self._on_marker_durable(name, code))
        partition.sync_soon()

    def _report(self, name: TopicPartition, error: ApiError) -> None:
        if name not in self._reported:
            self._reported.add(name)
            log.warning(
                "The %s of transaction %r waits, because its marker in %s cannot be written: %s",
                "commit" if self._markers.commit else "abort",
                self._markers.transactional_id,
                name,
                error,
            )

    def _on_marker_durable(
        self, name: TopicPartition | None = None, code: ErrorCode = ErrorCode.NONE
    ) -> None:
        if code is not ErrorCode.NONE and name is not None:
            self._again.add(name)
        self._not_durable -= 1
        if self._not_durable:
            return
        if self._again:
            self._writer.retry_later(lambda: self.begin(frozenset(self._again)))
        else:
            self._writer.do(self._on_done)
