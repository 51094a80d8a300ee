"""Runs the coordinator of transactions: writes its records, then the markers, then gives its answers.

The records of a transactional id go to one partition of `__transaction_state`. How a transaction ends is
decided when that record is on disk, and only then is the first marker written; when all markers are on
disk, the transaction is complete. A crash at any point leaves either no decision, and the transaction
times out, or a decision that the next start carries out.

That a transaction is complete, and that a partition is part of the next one, is written down before the
first of its batches is appended; but all this may reach the disk in any order. So batches of a
transaction that nobody knows of can be found after a loss of power. They were never acknowledged, and
`load` aborts them.
"""

import asyncio
import logging

from strom.broker.broker import Broker
from strom.broker.groups import Groups
from strom.broker.markers import MarkerWriter
from strom.broker.partition import Partition, WhenFlushed
from strom.broker.replaying import Replayed
from strom.broker.state_topic import StateTopic, told_as
from strom.coordination.transactions.commands import AddPartitions, TransactionCommand
from strom.coordination.transactions.coordinator import SERVER_VERSION, TransactionCoordinator
from strom.coordination.transactions.outcome import TransactionOutcome, TransactionResponse
from strom.coordination.transactions.records import (
    NO_EPOCH,
    TransactionRecord,
    decode,
    encode,
)
from strom.coordination.transactions.states import TransactionState
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import TRANSACTION_STATE_TOPIC, TopicPartition
from strom.storage.log import Appended
from strom.storage.producer_state import ProducerInfo
from strom.wire.kafka.records import Record, build_batch

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""After a refusal that may pass, such as a full disk."""


class Transactions:
    """All transactions of this broker, at work."""

    def __init__(self, broker: Broker, groups: Groups) -> None:
        self._broker = broker
        self._groups = groups
        self._loop = asyncio.get_running_loop()
        self._coordinator = TransactionCoordinator(broker.settings)
        self.markers = MarkerWriter(broker, groups, self._loop)
        self._waiting: set[asyncio.Future[TransactionResponse]] = set()
        settings = broker.settings
        self._topic = StateTopic(
            broker,
            TRANSACTION_STATE_TOPIC,
            settings.transaction_topic_num_partitions,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": str(settings.transaction_topic_segment_bytes),
            },
        )
        self._same_epoch_next: dict[str, Appended] = {}
        """Ends after which a client goes on with its epoch, until they are safe."""
        self._stopped = False
        self.ended = {"commit": 0, "abort": 0}
        """How many transactions have ended since the broker started, for metrics."""
        self.timed_out = 0
        broker.when_topic_is_deleted.append(self._topic_is_deleted)

    # --- life ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Bring every transactional id to what the log says, and finish what was decided."""
        for _, records in self._topic.read(_decoded, lambda _: True):
            for record in records:
                self._coordinator.replay(record)
        if self._topic.is_whole:
            self._abort_orphans()
        for outcome in self._coordinator.resume():
            self._carry_out(outcome)

    def stop(self) -> None:
        """Let everyone who waits go; what is decided is carried out by the next start."""
        self._stopped = True
        self.markers.stop()
        self._refuse_waiting(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def ensure_topic(self) -> None:
        """Create `__transaction_state` if it is not there yet."""
        await self._topic.ensure()

    # --- requests ------------------------------------------------------------------------------

    def submit(self, command: TransactionCommand) -> "asyncio.Future[TransactionResponse]":
        """Do what is asked; the answer comes when it is safe."""
        ticket: asyncio.Future[TransactionResponse] = self._loop.create_future()
        try:
            if command.transactional_id:
                self._partition_of(command.transactional_id)
        except ApiError as error:
            ticket.set_result(TransactionResponse(code=error.code))
            return ticket
        self._waiting.add(ticket)
        ticket.add_done_callback(self._waiting.discard)
        self._carry_out(self._coordinator.handle(command, ticket, self._broker.clock.now_ms()))
        return ticket

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        *,
        adds: bool,
    ) -> None:
        """Let a producer write to a partition, or raise why not; with `adds` it becomes part of it.

        The partition counts as added at once, but the write may be acknowledged only `on_durable`.
        """
        home = self._partition_of(transactional_id)
        code = self._coordinator.check_part_of(transactional_id, producer_id, epoch, partition)
        is_new = code is ErrorCode.TRANSACTION_ABORTABLE
        if code is ErrorCode.NONE or (is_new and adds):
            self._check_end_is_safe(home, transactional_id)
        if is_new and adds:
            command = AddPartitions(
                transactional_id=transactional_id,
                producer_id=producer_id,
                epoch=epoch,
                partitions=frozenset({partition}),
                client_version=SERVER_VERSION,
            )
            outcome = self._coordinator.handle(command, None, self._broker.clock.now_ms())
            self._write(home, outcome.records)
            ((_, response),) = outcome.responses
            code = response.code
        if code is not ErrorCode.NONE:
            raise ApiError(code)

    def _check_end_is_safe(self, home: Partition, transactional_id: str) -> None:
        """After a crash, a batch of the same epoch could be taken for one of the transaction before."""
        end = self._same_epoch_next.get(transactional_id)
        if end is not None:
            if not home.is_durable(end):
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            del self._same_epoch_next[transactional_id]

    def is_durable(self, transactional_id: str) -> bool:
        """Whether all that was written down of a transactional id is on disk."""
        return self._topic.is_durable(self._partition_of(transactional_id))

    def on_durable(self, transactional_id: str, callback: WhenFlushed) -> None:
        """Call back when all that was written down of a transactional id is on disk, or never will be."""
        self._topic.on_durable(self._partition_of(transactional_id), callback)

    def look(self) -> TransactionCoordinator:
        """All transactions, as they are now."""
        return self._coordinator

    def check_serving(self, transactional_id: str) -> None:
        """Raise NOT_COORDINATOR unless this broker can serve the transactional id."""
        self._partition_of(transactional_id)

    async def new_producer_id(self, command: TransactionCommand) -> int | None:
        """An id that nobody has, if the command will need one."""
        if not self._coordinator.needs_producer_id(command):
            return None
        return await self._broker.next_producer_id()

    # --- background work -----------------------------------------------------------------------

    async def abort_timed_out(self) -> None:
        """Abort what was left open for too long."""
        for outcome in self._coordinator.abort_timed_out(self._broker.clock.now_ms()):
            log.info("Transaction %r has timed out and is aborted", outcome.transactional_id)
            self.timed_out += 1
            self._carry_out(outcome)

    async def expire(self) -> None:
        """Forget transactional ids that nobody has used for long."""
        for outcome in self._coordinator.expire(self._broker.clock.now_ms()):
            self._carry_out(outcome)

    # --- inside --------------------------------------------------------------------------------

    def _partition_of(self, transactional_id: str) -> Partition:
        """Where its records are; NOT_COORDINATOR while that cannot be used."""
        if self._stopped:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return self._topic.partition_of(transactional_id)

    def _carry_out(self, outcome: TransactionOutcome) -> None:
        try:
            if not outcome.records and outcome.markers is None:
                _give(outcome.responses)
                return
            partition = self._partition_of(outcome.transactional_id)
            appended = self._write(partition, outcome.records)
        except ApiError as error:
            self._not_written(outcome, error)
            return
        if outcome.is_durable:
            self._note_end(outcome, appended)
            _give(outcome.responses)
        else:
            self._topic.on_durable(
                partition, lambda code: self._is_written(partition, outcome, code)
            )

    def _note_end(self, outcome: TransactionOutcome, appended: Appended | None) -> None:
        known = self._coordinator.find(outcome.transactional_id)
        if known is not None:
            self.ended[
                "commit" if known.state is TransactionState.COMPLETE_COMMIT else "abort"
            ] += 1
        if appended is not None and known is not None and not known.bumped:
            self._same_epoch_next[outcome.transactional_id] = appended

    def _is_written(
        self, partition: Partition, outcome: TransactionOutcome, code: ErrorCode
    ) -> None:
        """The records are on disk, or (with a code) not yet: then a decision is tried again."""
        _give(outcome.responses, code)
        markers = outcome.markers
        if markers is None or self._stopped:
            return
        if code is ErrorCode.NONE:
            self.markers.write(markers, partition, lambda: self._complete(markers.transactional_id))
        elif not partition.deleted:
            again = TransactionOutcome(outcome.transactional_id, markers=markers)
            self._loop.call_later(
                RETRY_S,
                self._topic.on_durable,
                partition,
                lambda code: self._is_written(partition, again, code),
            )

    def _complete(self, transactional_id: str) -> None:
        outcome = self._coordinator.on_markers_written(
            transactional_id, self._broker.clock.now_ms()
        )
        self._carry_out(outcome)

    def _not_written(self, outcome: TransactionOutcome, error: ApiError) -> None:
        name = outcome.transactional_id
        log.warning("A change to transaction %r was not written: %s", name, error)
        _give(outcome.responses, error.code)
        if outcome.is_durable:
            if not self._stopped:
                self._loop.call_later(RETRY_S, self._complete, name)
            return
        refused = TransactionResponse(code=told_as(error.code))
        _give([(ticket, refused) for ticket in self._coordinator.abandon(name)])

    def _write(self, partition: Partition, records: list[TransactionRecord]) -> Appended | None:
        if not records:
            return None
        now_ms = self._broker.clock.now_ms()
        batch = build_batch(
            [
                Record(index, now_ms, key, value)
                for index, (key, value) in enumerate(map(encode, records))
            ]
        )
        appended = self._topic.append(partition, batch)
        for record in records:
            self._coordinator.replay(record)
        return appended

    def _refuse_waiting(self, code: ErrorCode) -> None:
        _give([(ticket, TransactionResponse(code=code)) for ticket in list(self._waiting)])

    def _topic_is_deleted(self, topic: str) -> None:
        if topic == TRANSACTION_STATE_TOPIC:
            self._coordinator = TransactionCoordinator(self._broker.settings)
            self._topic.forget()
            self._same_epoch_next.clear()
            self._refuse_waiting(ErrorCode.NOT_COORDINATOR)

    def _abort_orphans(self) -> None:
        """End transactions that a log holds open, but that nobody knows of (see above)."""
        known = self._coordinator.open_partitions()
        for partition in self._broker.all_partitions():
            if partition.log.quarantined or not partition.log.has_open_transactions:
                continue
            name = partition.log.partition
            for producer in partition.log.producers():
                if producer.transaction_first_offset is None:
                    continue
                if producer.producer_epoch > known.get((producer.producer_id, name), NO_EPOCH):
                    log.warning("An unfinished transaction of nobody in %s is aborted", name)
                    self._abort_orphan(partition, producer)

    def _abort_orphan(self, partition: Partition, producer: ProducerInfo) -> None:
        if producer not in partition.log.producers():
            return  # it was ended in another way meanwhile
        try:
            self.markers.abort_orphan(partition, producer)
        except ApiError as error:
            log.warning(
                "The abort marker of %s is written later: %s", partition.log.partition, error
            )
            self.markers.try_again(lambda: self._abort_orphan(partition, producer))


def _give(
    responses: list[tuple["asyncio.Future[TransactionResponse]", TransactionResponse]],
    code: ErrorCode = ErrorCode.NONE,
) -> None:
    for ticket, response in responses:
        if not ticket.done():
            failed = code is not ErrorCode.NONE
            ticket.set_result(response.with_error(told_as(code)) if failed else response)


def _decoded(batch: Replayed) -> list[TransactionRecord]:
    decoded = (decode(one.key, one.value) for one in batch.records)
    return [record for record in decoded if record is not None]
