"""The transaction coordinator: commands in; records, responses and markers out.

A command reads the state and returns an Outcome. Only `replay` changes the state, at start-up and at run
time alike; a Transaction is immutable and replaced. Requests that wait for markers are in memory only.
"""

import dataclasses
from collections.abc import Iterator

from strom.coordination.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    Markers,
    Ticket,
    TransactionCommand,
    TransactionOutcome,
    TransactionResponse,
)
from strom.coordination.transactions.records import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NOT_STARTED,
    TransactionDeleted,
    TransactionMetadata,
    TransactionRecord,
    is_exhausted,
)
from strom.coordination.transactions.states import TransactionState
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import TopicPartition

SERVER_VERSION = 2
"""The transactions version that the broker writes when it aborts a transaction itself."""

S = TransactionState


class TransactionCoordinator:
    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._transactions: dict[str, TransactionMetadata] = {}
        self._waiting: dict[str, list[tuple[Ticket, TransactionResponse | None]]] = {}
        """The responses to send when the transaction is complete; None: the producer's new epoch."""

    # --- queries ------------------------------------------------------------------------------

    def transactions(self) -> Iterator[TransactionMetadata]:
        for name in sorted(self._transactions):
            yield self._transactions[name]

    def all_transactions(self) -> tuple[TransactionMetadata, ...]:
        """Every transactional id as it is now, in no order."""
        return tuple(self._transactions.values())

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        return self._transactions.get(transactional_id)

    def needs_producer_id(self, command: TransactionCommand) -> bool:
        """Whether a command needs an unused producer id."""
        known = self._transactions.get(command.transactional_id)
        match command:
            case InitProducer():
                return known is None or (known.is_exhausted and known.state.is_idle)
            case EndTransaction():
                return command.bumps_epoch and known is not None and known.is_exhausted
        return False

    def check_part_of(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """Whether this producer may write to a partition; TRANSACTION_ABORTABLE if it was not added."""
        known = self._transactions.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if known.epoch != epoch:
            return ErrorCode.PRODUCER_FENCED
        if known.state.is_ending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if partition in known.partitions:
            return ErrorCode.NONE
        return ErrorCode.TRANSACTION_ABORTABLE

    def open_partitions(self) -> dict[tuple[int, TopicPartition], int]:
        """The partitions of incomplete transactions, with the last epoch of their batches.

        An ending transaction with a bumped epoch has the next one: batches with that epoch belong to
        the transaction after it.
        """
        return {
            (known.producer_id, partition): known.epoch - (known.state.is_ending and known.bumped)
            for known in self._transactions.values()
            for partition in known.partitions
        }

    # --- commands ------------------------------------------------------------------------------

    def handle(
        self, command: TransactionCommand, ticket: Ticket, now_ms: int
    ) -> TransactionOutcome:
        """Handle a command; the response to the ticket is in this outcome or in a later one."""
        out = TransactionOutcome(command.transactional_id)
        try:
            if not command.transactional_id:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            match command:
                case InitProducer():
                    self._init(command, ticket, out, now_ms)
                case AddPartitions():
                    self._add(command, ticket, out, now_ms)
                case EndTransaction():
                    self._end(command, ticket, out, now_ms)
        except ApiError as error:
            out.responses.append((ticket, TransactionResponse(code=error.code)))
        return out

    def on_markers_written(self, transactional_id: str, now_ms: int) -> TransactionOutcome:
        """All markers are durable: the transaction is complete."""
        out = TransactionOutcome(transactional_id, is_durable=True)
        known = self._transactions.get(transactional_id)
        if known is None or not known.state.is_ending:
            return out
        complete = self._complete(known, now_ms)
        out.records.append(complete)
        completed = TransactionResponse(producer_id=complete.producer_id, epoch=complete.epoch)
        for ticket, response in self._waiting.pop(transactional_id, ()):
            out.responses.append((ticket, completed if response is None else response))
        return out

    def abandon(self, transactional_id: str) -> list[Ticket]:
        """The end of a transaction could not be written; returns the requests that wait for it."""
        return [ticket for ticket, _ in self._waiting.pop(transactional_id, ())]

    # Other commands may be handled between two of these outcomes.

    def abort_timed_out(self, now_ms: int) -> Iterator[TransactionOutcome]:
        """Abort transactions past their timeout, and fence their producers."""
        for name in list(self._transactions):
            known = self._transactions.get(name)
            if known is None or known.state is not S.ONGOING:
                continue
            if known.started_ms + known.timeout_ms < now_ms:
                yield self._fence(known, now_ms)

    def expire(self, now_ms: int) -> Iterator[TransactionOutcome]:
        """Delete transactional ids that were idle for `transactional.id.expiration.ms`."""
        oldest_ms = now_ms - self._settings.transactional_id_expiration_ms
        for name in list(self._transactions):
            known = self._transactions.get(name)
            if known is not None and known.state.is_idle and known.updated_ms <= oldest_ms:
                yield TransactionOutcome(name, [TransactionDeleted(name)])

    def resume(self) -> Iterator[TransactionOutcome]:
        """After replay: the markers of transactions that were ending must be written again."""
        for known in self._transactions.values():
            if known.state.is_ending:
                yield TransactionOutcome(known.transactional_id, markers=_markers(known))

    # --- replay --------------------------------------------------------------------------------

    def replay(self, record: TransactionRecord) -> None:
        if isinstance(record, TransactionDeleted):
            self._transactions.pop(record.transactional_id, None)
        else:
            self._transactions[record.transactional_id] = record

    # --- InitProducerId ------------------------------------------------------------------------

    def _init(
        self, command: InitProducer, ticket: Ticket, out: TransactionOutcome, now_ms: int
    ) -> None:
        if not 0 < command.timeout_ms <= self._settings.transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        known = self._transactions.get(command.transactional_id)
        if known is None:
            fresh = TransactionMetadata(
                transactional_id=command.transactional_id,
                producer_id=_new_producer_id(command),
                epoch=0,
                timeout_ms=command.timeout_ms,
                updated_ms=now_ms,
            )
        elif command.keeps_producer_id and not _is_same_producer(command, known):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        elif known.state.is_ending:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif known.state is S.ONGOING:
            if command.keeps_producer_id and command.epoch != known.epoch:
                # Kafka aborts here, but a fenced producer must not disturb the current one.
                raise ApiError(ErrorCode.PRODUCER_FENCED)
            # The response waits until the abort is complete, so that the client's retry succeeds.
            response = TransactionResponse(code=ErrorCode.CONCURRENT_TRANSACTIONS)
            self._wait_for_end(known, ticket, response)
            fenced = self._fence(known, now_ms)
            out.records, out.markers = fenced.records, fenced.markers
            return
        else:
            fresh = self._next_producer(command, known, now_ms)
        out.records.append(fresh)
        response = TransactionResponse(producer_id=fresh.producer_id, epoch=fresh.epoch)
        out.responses.append((ticket, response))

    def _next_producer(
        self, command: InitProducer, known: TransactionMetadata, now_ms: int
    ) -> TransactionMetadata:
        """The next producer: with a bumped epoch, or with a new id if the epochs are exhausted."""
        producer_id, epoch = known.producer_id, known.epoch + 1
        was_last = known.last_epoch not in (NO_EPOCH, known.epoch) and (
            command.epoch == known.last_epoch
        )
        if command.keeps_producer_id and command.epoch != known.epoch and not was_last:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if command.keeps_producer_id and was_last and known.epoch != LAST_EPOCH:
            # A retry after a lost response: no other producer was initialized since.
            epoch = known.epoch
        elif known.is_exhausted:
            producer_id, epoch = _new_producer_id(command), 0
        return dataclasses.replace(
            known,
            producer_id=producer_id,
            epoch=epoch,
            last_epoch=command.epoch if command.keeps_producer_id else NO_EPOCH,
            previous_producer_id=known.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            state=S.EMPTY,
            timeout_ms=command.timeout_ms,
            partitions=frozenset(),
            started_ms=NOT_STARTED,
            updated_ms=now_ms,
            client_version=0,
        )

    # --- AddPartitionsToTxn --------------------------------------------------------------------

    def _add(
        self, command: AddPartitions, ticket: Ticket, out: TransactionOutcome, now_ms: int
    ) -> None:
        known = self._of_producer(command.transactional_id, command.producer_id)
        if known.epoch != command.epoch or known.epoch == LAST_EPOCH:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if known.state.is_ending:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        is_ongoing = known.state is S.ONGOING
        if not is_ongoing or not command.partitions <= known.partitions:
            grown = dataclasses.replace(
                known,
                state=S.ONGOING,
                partitions=known.partitions | command.partitions,
                started_ms=known.started_ms if is_ongoing else now_ms,
                updated_ms=now_ms,
                client_version=command.client_version,
            )
            out.records.append(grown)
        out.responses.append((ticket, TransactionResponse()))

    def _of_producer(self, transactional_id: str, producer_id: int) -> TransactionMetadata:
        known = self._transactions.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return known

    # --- EndTxn --------------------------------------------------------------------------------

    def _end(
        self, command: EndTransaction, ticket: Ticket, out: TransactionOutcome, now_ms: int
    ) -> None:
        known = self._transactions.get(command.transactional_id)
        is_retry = command.bumps_epoch and known is not None and _was_bumped(command, known)
        if known is None or (known.producer_id != command.producer_id and not is_retry):
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if not is_retry and (
            command.epoch != known.epoch or (command.bumps_epoch and known.state.is_ending)
        ):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if (is_retry and known.state in (S.EMPTY, S.ONGOING)) or command.epoch == LAST_EPOCH:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if known.state is S.ONGOING:
            self._wait_for_end(known, ticket, None)
            ending = self._prepare(known, command, now_ms)
        elif command.bumps_epoch and not is_retry and not command.commit:
            # Nothing was written, but batches in flight must not become part of the next transaction.
            self._wait_for_end(known, ticket, None)
            begun = dataclasses.replace(known, started_ms=now_ms, partitions=frozenset())
            ending = self._prepare(begun, command, now_ms)
        else:
            self._respond_to_repeated_end(command, known, ticket, out, is_retry=is_retry)
            return
        out.records.append(ending)
        out.markers = _markers(ending)

    def _respond_to_repeated_end(
        self,
        command: EndTransaction,
        known: TransactionMetadata,
        ticket: Ticket,
        out: TransactionOutcome,
        *,
        is_retry: bool,
    ) -> None:
        wanted = (
            (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)
            if command.commit
            else (S.PREPARE_ABORT, S.COMPLETE_ABORT)
        )
        if known.state not in wanted or (command.bumps_epoch and not is_retry):
            raise ApiError(ErrorCode.INVALID_TXN_STATE)
        if known.state.is_ending:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        response = TransactionResponse(producer_id=known.producer_id, epoch=known.epoch)
        out.responses.append((ticket, response))

    def _prepare(
        self, known: TransactionMetadata, command: EndTransaction, now_ms: int
    ) -> TransactionMetadata:
        ending = dataclasses.replace(
            known,
            state=S.PREPARE_COMMIT if command.commit else S.PREPARE_ABORT,
            updated_ms=now_ms,
            client_version=SERVER_VERSION if command.bumps_epoch else 0,
        )
        if not command.bumps_epoch:
            return ending
        return dataclasses.replace(
            ending,
            epoch=known.epoch + 1,
            last_epoch=known.epoch,
            next_producer_id=_new_producer_id(command) if known.is_exhausted else NO_PRODUCER_ID,
        )

    def _fence(self, known: TransactionMetadata, now_ms: int) -> TransactionOutcome:
        """Abort, and fence the producer with a bumped epoch."""
        fenced = dataclasses.replace(
            known,
            state=S.PREPARE_ABORT,
            epoch=known.epoch + 1,
            last_epoch=known.epoch,
            updated_ms=now_ms,
            client_version=SERVER_VERSION,
        )
        return TransactionOutcome(known.transactional_id, [fenced], markers=_markers(fenced))

    def _complete(self, known: TransactionMetadata, now_ms: int) -> TransactionMetadata:
        committed = known.state is S.PREPARE_COMMIT
        rotates = known.next_producer_id != NO_PRODUCER_ID
        return dataclasses.replace(
            known,
            state=S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT,
            producer_id=known.next_producer_id if rotates else known.producer_id,
            epoch=0 if rotates else known.epoch,
            previous_producer_id=known.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    def _wait_for_end(
        self, known: TransactionMetadata, ticket: Ticket, response: TransactionResponse | None
    ) -> None:
        self._waiting.setdefault(known.transactional_id, []).append((ticket, response))


def _new_producer_id(command: InitProducer | EndTransaction) -> int:
    if command.new_producer_id is None:
        # The state has changed while the caller reserved an id; the client's retry has one.
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return command.new_producer_id


def _is_same_producer(command: InitProducer, known: TransactionMetadata) -> bool:
    """Whether the caller is this producer, or had its previous producer id."""
    was_rotated = command.producer_id == known.previous_producer_id and is_exhausted(command.epoch)
    return command.producer_id == known.producer_id or was_rotated


def _was_bumped(command: EndTransaction, known: TransactionMetadata) -> bool:
    """Whether the request is a retry: the first one has bumped the epoch already."""
    rotated = (
        known.previous_producer_id == command.producer_id
        and is_exhausted(command.epoch)
        and known.epoch == 0
    )
    same = known.producer_id == command.producer_id
    return (same and known.epoch == command.epoch + 1) or rotated


def _markers(ending: TransactionMetadata) -> Markers:
    return Markers(
        transactional_id=ending.transactional_id,
        producer_id=ending.producer_id,
        epoch=ending.epoch,
        commit=ending.state is S.PREPARE_COMMIT,
        partitions=ending.partitions,
    )
