"""Runs the transaction coordinator: writes its records, then the markers, then sends its responses.

The records of a transactional id go to one partition of `__transaction_state`. A transaction is
committed or aborted when that record is durable, and only then is the first marker written; when all
markers are durable, the transaction is complete. A crash at any point leaves either no decision, and
the transaction times out, or a decision that the next start completes.

The completion of a transaction, and the partitions of the next one, are written before its first batch
is appended; but all of this may reach the disk in any order. So after a power failure a partition may
hold batches of a transaction that the coordinator does not know. They were never acknowledged, and
`load` aborts them.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Iterable, Iterator
from itertools import takewhile

from strom.broker.broker import Broker
from strom.broker.groups import Groups
from strom.broker.markers import RETRY_S, MarkerWriter
from strom.broker.partition import OnDurable, Partition
from strom.broker.replaying import Replayed
from strom.broker.state_topic import StateTopic, respond, to_client_error
from strom.broker.turns import in_turns
from strom.coordination.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    TransactionCommand,
    TransactionOutcome,
    TransactionResponse,
)
from strom.coordination.transactions.coordinator import SERVER_VERSION, TransactionCoordinator
from strom.coordination.transactions.records import TransactionRecord, decode, encode
from strom.coordination.transactions.states import TransactionState
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import TRANSACTION_STATE_TOPIC, TopicPartition
from strom.storage.log import Appended

log = logging.getLogger(__name__)


class Transactions:
    def __init__(self, broker: Broker, groups: Groups) -> None:
        self._broker = broker
        self._groups = groups
        self._loop = asyncio.get_running_loop()
        self._coordinator = TransactionCoordinator(broker.settings)
        self.markers = MarkerWriter(broker, groups, self._loop)
        self._waiting: set[asyncio.Future[TransactionResponse]] = set()
        settings = broker.settings
        self.topic = StateTopic(
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
        """Ends after which a client keeps its epoch, until they are durable."""
        self.ended = {"commit": 0, "abort": 0}
        """How many transactions have ended since the broker started, for metrics."""
        self.timed_out = 0
        broker.on_topic_deleted.append(self._on_topic_deleted)

    # --- lifecycle -----------------------------------------------------------------------------

    def load(self) -> None:
        """Restore all transactional ids from the log, and complete ending transactions."""
        for _, records in self.topic.read(_decoded, lambda _: True):
            for record in records:
                self._coordinator.replay(record)
        if self.topic.is_complete:
            self.markers.abort_orphans(self._coordinator.open_partitions())
        for outcome in self._coordinator.resume():
            self._carry_out(outcome)

    def stop(self) -> None:
        """Fail all waiting requests; the next start completes ending transactions."""
        self.topic.stop()
        self.markers.stop()
        self._fail_waiting(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # --- requests ------------------------------------------------------------------------------

    def submit(self, command: TransactionCommand) -> "asyncio.Future[TransactionResponse]":
        """Run a command; its response comes when its records are durable."""
        ticket: asyncio.Future[TransactionResponse] = self._loop.create_future()
        try:
            if command.transactional_id:
                self.topic.partition_of(command.transactional_id)
            if isinstance(command, AddPartitions):
                self._check_not_damaged(command.partitions)
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
        """Verify that a producer may write to a partition (KIP-890); with `adds` the partition is added.

        The partition is added at once, but the write may be acknowledged only `on_durable`.
        """
        home = self.topic.partition_of(transactional_id)
        code = self._coordinator.check_part_of(transactional_id, producer_id, epoch, partition)
        is_new = code is ErrorCode.TRANSACTION_ABORTABLE
        if code is ErrorCode.NONE or (is_new and adds):
            self._check_end_is_durable(home, transactional_id)
        if is_new and adds:
            self._check_not_damaged({partition})
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

    def _check_not_damaged(self, partitions: Iterable[TopicPartition]) -> None:
        """Reject partitions that are offline because of damage.

        Such a partition gets no abort markers: the records of an earlier transaction may still be open in
        it, and would be committed with the ones of this transaction when the partition is back.
        """
        for name in partitions:
            partition = self.markers.find(name)
            if partition is not None and partition.log.quarantined:
                raise ApiError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"{name} is offline: {partition.log.quarantined}"
                )

    def _check_end_is_durable(self, home: Partition, transactional_id: str) -> None:
        """Reject a batch until the previous end is durable: after a crash it could join that
        transaction.
        """
        end = self._same_epoch_next.get(transactional_id)
        if end is not None:
            if not home.is_durable(end):
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            del self._same_epoch_next[transactional_id]

    def is_durable(self, transactional_id: str) -> bool:
        """Whether all records of a transactional id are durable."""
        return self.topic.is_durable(self.topic.partition_of(transactional_id))

    def on_durable(self, transactional_id: str, callback: OnDurable) -> None:
        """Call back when all records of a transactional id are durable, or with the error if they
        cannot be.
        """
        self.topic.on_durable(self.topic.partition_of(transactional_id), callback)

    async def wait_until_durable(self, transactional_id: str) -> ErrorCode:
        """Return when all records of a transactional id are durable, or the error if they cannot be."""
        return await self.topic.wait_until_durable(self.topic.partition_of(transactional_id))

    def look(self) -> TransactionCoordinator:
        return self._coordinator

    async def submit_with_new_id(
        self, command: InitProducer | EndTransaction
    ) -> TransactionResponse:
        """Run a command with an unused producer id if it needs one; ApiError if there is none."""
        if self._coordinator.needs_producer_id(command):
            fresh = await self._broker.next_producer_id()
            command = dataclasses.replace(command, new_producer_id=fresh)
        return await self.submit(command)

    # --- background work -----------------------------------------------------------------------

    async def abort_timed_out(self) -> None:
        """Abort transactions past their timeout."""
        timed_out = self._coordinator.abort_timed_out(self._broker.clock.now_ms())
        await in_turns(map(self._abort_timed_out, self._while_current(timed_out)))

    def _abort_timed_out(self, outcome: TransactionOutcome) -> None:
        log.info("Transaction %r has timed out and is aborted", outcome.transactional_id)
        self.timed_out += 1
        self._carry_out(outcome)

    async def expire(self) -> None:
        """Delete expired transactional ids."""
        expired = self._coordinator.expire(self._broker.clock.now_ms())
        await in_turns(map(self._carry_out, self._while_current(expired)))

    def _while_current(
        self, outcomes: Iterator[TransactionOutcome]
    ) -> Iterator[TransactionOutcome]:
        """These outcomes, until the state topic is deleted or the broker stops."""
        coordinator = self._coordinator
        return takewhile(
            lambda _: self._coordinator is coordinator and not self.topic.is_stopped, outcomes
        )

    # --- outcomes ------------------------------------------------------------------------------

    def _carry_out(self, outcome: TransactionOutcome) -> None:
        try:
            if not outcome.records and outcome.markers is None:
                respond(outcome.responses)
                return
            partition = self.topic.partition_of(outcome.transactional_id)
            appended = self._write(partition, outcome.records)
        except ApiError as error:
            self._not_written(outcome, error)
            return
        if outcome.is_durable:
            self._note_end(outcome, appended)
            respond(outcome.responses)
        else:
            self.topic.on_durable(
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
        """Continue when the records are durable; with an error code, retry an end."""
        respond(outcome.responses, code)
        markers = outcome.markers
        if markers is None or self.topic.is_stopped:
            return
        if code is ErrorCode.NONE:
            self.markers.write(markers, partition, lambda: self._complete(markers.transactional_id))
        elif not partition.deleted:
            again = TransactionOutcome(outcome.transactional_id, markers=markers)
            self._loop.call_later(
                RETRY_S,
                self.topic.on_durable,
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
        respond(outcome.responses, error.code)
        if outcome.is_durable:
            if not self.topic.is_stopped:
                self._loop.call_later(RETRY_S, self._complete, name)
            return
        refused = TransactionResponse(code=to_client_error(error.code))
        respond([(ticket, refused) for ticket in self._coordinator.abandon(name)])

    def _write(self, partition: Partition, records: list[TransactionRecord]) -> Appended | None:
        if not records:
            return None
        appended = self.topic.append(partition, self.topic.batch_of(map(encode, records)))
        for record in records:
            self._coordinator.replay(record)
        return appended

    def _fail_waiting(self, code: ErrorCode) -> None:
        respond([(ticket, TransactionResponse(code=code)) for ticket in list(self._waiting)])

    def _on_topic_deleted(self, topic: str) -> None:
        if topic == TRANSACTION_STATE_TOPIC:
            self._coordinator = TransactionCoordinator(self._broker.settings)
            self.topic.forget()
            self._same_epoch_next.clear()
            self._fail_waiting(ErrorCode.NOT_COORDINATOR)


def _decoded(batch: Replayed) -> list[TransactionRecord]:
    decoded = (decode(one.key, one.value) for one in batch.records)
    return [record for record in decoded if record is not None]
