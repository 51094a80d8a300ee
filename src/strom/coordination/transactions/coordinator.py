"""The coordinator of transactions: commands in; records, answers and markers out.

A command looks, and says in an Outcome what shall happen. Only `replay` changes what is known, in the
same way at start-up and at run time; a Transaction is never changed, but replaced by the next. Who waits
for the markers of a transaction is kept in memory only.
"""

import dataclasses
from collections.abc import Iterator

from strom.coordination.transactions.commands import AddPartitions, Command, End, Init
from strom.coordination.transactions.outcome import Answered, Markers, Outcome, Ticket
from strom.coordination.transactions.records import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NOT_STARTED,
    Transaction,
    TransactionGone,
    TransactionRecord,
    is_exhausted,
)
from strom.coordination.transactions.states import TransactionState
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import TopicPartition

SERVER_VERSION = 2
"""Of transactions: what the broker itself writes down when it ends one that was left alone."""

S = TransactionState


class TransactionCoordinator:
    """All transactional ids of a broker."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._transactions: dict[str, Transaction] = {}
        self._waiting: dict[str, list[tuple[Ticket, Answered | None]]] = {}
        """Who is told when the transaction is complete; None stands for its producer's new epoch."""

    # --- looking -------------------------------------------------------------------------------

    def transactions(self) -> Iterator[Transaction]:
        """Every transactional id, by name."""
        for name in sorted(self._transactions):
            yield self._transactions[name]

    def all_transactions(self) -> tuple[Transaction, ...]:
        """Every transactional id as it is now, in no order."""
        return tuple(self._transactions.values())

    def find(self, transactional_id: str) -> Transaction | None:
        """What is known of a transactional id."""
        return self._transactions.get(transactional_id)

    def needs_producer_id(self, command: Command) -> bool:
        """Whether a command will need an id that nobody has."""
        known = self._transactions.get(command.transactional_id)
        match command:
            case Init():
                return known is None or (known.is_exhausted and known.state.is_idle)
            case End():
                return command.bumps_epoch and known is not None and known.is_exhausted
        return False

    def check_part_of(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """Whether this producer may write to a partition now; TRANSACTION_ABORTABLE if not yet added."""
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
        """By producer and partition, the last epoch of batches that belong to what is not complete.

        An end that moves the epoch on names the next one: batches that have it already are of the
        transaction after.
        """
        return {
            (known.producer_id, partition): known.epoch - (known.state.is_ending and known.bumped)
            for known in self._transactions.values()
            for partition in known.partitions
        }

    # --- commands ------------------------------------------------------------------------------

    def handle(self, command: Command, ticket: Ticket, now_ms: int) -> Outcome:
        """Do what is asked; the ticket is answered in this outcome or in a later one."""
        out = Outcome(command.transactional_id)
        try:
            if not command.transactional_id:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            match command:
                case Init():
                    self._init(command, ticket, out, now_ms)
                case AddPartitions():
                    self._add(command, ticket, out, now_ms)
                case End():
                    self._end(command, ticket, out, now_ms)
        except ApiError as error:
            out.answers.append((ticket, Answered(code=error.code)))
        return out

    def markers_written(self, transactional_id: str, now_ms: int) -> Outcome:
        """Every partition knows how the transaction ended: it is complete."""
        out = Outcome(transactional_id, is_decided=True)
        known = self._transactions.get(transactional_id)
        if known is None or not known.state.is_ending:
            return out
        complete = self._complete(known, now_ms)
        out.records.append(complete)
        told = Answered(producer_id=complete.producer_id, epoch=complete.epoch)
        for ticket, answer in self._waiting.pop(transactional_id, ()):
            out.answers.append((ticket, answer or told))
        return out

    def abandon(self, transactional_id: str) -> list[Ticket]:
        """What should have ended a transaction could not be written: who is to be told."""
        return [ticket for ticket, _ in self._waiting.pop(transactional_id, ())]

    def abort_timed_out(self, now_ms: int) -> list[Outcome]:
        """Abort what was left open for too long; its producer is out."""
        return [
            self._fence(known, now_ms)
            for known in self._transactions.values()
            if known.state is S.ONGOING and known.started_ms + known.timeout_ms < now_ms
        ]

    def expire(self, now_ms: int) -> list[Outcome]:
        """Forget transactional ids that nobody has used for long."""
        oldest_ms = now_ms - self._settings.transactional_id_expiration_ms
        return [
            Outcome(name, [TransactionGone(name)])
            for name, known in self._transactions.items()
            if known.state.is_idle and known.updated_ms <= oldest_ms
        ]

    def resume(self) -> Iterator[Outcome]:
        """After the log was replayed: what was decided has to be told to its partitions, again."""
        for known in self._transactions.values():
            if known.state.is_ending:
                yield Outcome(known.transactional_id, markers=_markers(known))

    # --- the only mutator of what is written ---------------------------------------------------

    def replay(self, record: TransactionRecord) -> None:
        """Take a record that is in the log into the state."""
        if isinstance(record, TransactionGone):
            self._transactions.pop(record.transactional_id, None)
        else:
            self._transactions[record.transactional_id] = record

    # --- a producer begins ---------------------------------------------------------------------

    def _init(self, command: Init, ticket: Ticket, out: Outcome, now_ms: int) -> None:
        if not 0 < command.timeout_ms <= self._settings.transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        known = self._transactions.get(command.transactional_id)
        if known is None:
            fresh = Transaction(
                transactional_id=command.transactional_id,
                producer_id=_fresh(command),
                epoch=0,
                timeout_ms=command.timeout_ms,
                updated_ms=now_ms,
            )
        elif command.goes_on and not _may_be(command, known):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        elif known.state.is_ending:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif known.state is S.ONGOING:
            if command.goes_on and command.epoch != known.epoch:
                # Kafka would abort; but someone who is out must not disturb who is in.
                raise ApiError(ErrorCode.PRODUCER_FENCED)
            # Told only when the abort is complete, so that the next try goes through.
            told = Answered(code=ErrorCode.CONCURRENT_TRANSACTIONS)
            self._wait_for_end(known, ticket, told)
            fenced = self._fence(known, now_ms)
            out.records, out.markers = fenced.records, fenced.markers
            return
        else:
            fresh = self._next_producer(command, known, now_ms)
        out.records.append(fresh)
        told = Answered(producer_id=fresh.producer_id, epoch=fresh.epoch)
        out.answers.append((ticket, told))

    def _next_producer(self, command: Init, known: Transaction, now_ms: int) -> Transaction:
        """The producer after the present one: with the next epoch, or with a new id if there is none."""
        producer_id, epoch = known.producer_id, known.epoch + 1
        was_last = known.last_epoch not in (NO_EPOCH, known.epoch) and (
            command.epoch == known.last_epoch
        )
        if command.goes_on and command.epoch != known.epoch and not was_last:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if command.goes_on and was_last and known.epoch != LAST_EPOCH:
            # Asked again, because the answer got lost: nobody else has come since.
            epoch = known.epoch
        elif known.is_exhausted:
            producer_id, epoch = _fresh(command), 0
        return dataclasses.replace(
            known,
            producer_id=producer_id,
            epoch=epoch,
            last_epoch=command.epoch if command.goes_on else NO_EPOCH,
            previous_producer_id=known.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            state=S.EMPTY,
            timeout_ms=command.timeout_ms,
            partitions=frozenset(),
            started_ms=NOT_STARTED,
            updated_ms=now_ms,
            client_version=0,
        )

    # --- a transaction grows -------------------------------------------------------------------

    def _add(self, command: AddPartitions, ticket: Ticket, out: Outcome, now_ms: int) -> None:
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
        out.answers.append((ticket, Answered()))

    def _of_producer(self, transactional_id: str, producer_id: int) -> Transaction:
        known = self._transactions.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return known

    # --- a transaction ends --------------------------------------------------------------------

    def _end(self, command: End, ticket: Ticket, out: Outcome, now_ms: int) -> None:
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
            # Nothing was written; but what is still on its way must not get into the next one.
            self._wait_for_end(known, ticket, None)
            begun = dataclasses.replace(known, started_ms=now_ms, partitions=frozenset())
            ending = self._prepare(begun, command, now_ms)
        else:
            self._answer_repeated_end(command, known, ticket, out, is_retry=is_retry)
            return
        out.records.append(ending)
        out.markers = _markers(ending)

    def _answer_repeated_end(
        self, command: End, known: Transaction, ticket: Ticket, out: Outcome, *, is_retry: bool
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
        told = Answered(producer_id=known.producer_id, epoch=known.epoch)
        out.answers.append((ticket, told))

    def _prepare(self, known: Transaction, command: End, now_ms: int) -> Transaction:
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
            next_producer_id=_fresh(command) if known.is_exhausted else NO_PRODUCER_ID,
        )

    def _fence(self, known: Transaction, now_ms: int) -> Outcome:
        """Abort, and take the epoch from whoever holds it."""
        fenced = dataclasses.replace(
            known,
            state=S.PREPARE_ABORT,
            epoch=known.epoch + 1,
            last_epoch=known.epoch,
            updated_ms=now_ms,
            client_version=SERVER_VERSION,
        )
        return Outcome(known.transactional_id, [fenced], markers=_markers(fenced))

    def _complete(self, known: Transaction, now_ms: int) -> Transaction:
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

    def _wait_for_end(self, known: Transaction, ticket: Ticket, answer: Answered | None) -> None:
        self._waiting.setdefault(known.transactional_id, []).append((ticket, answer))


def _fresh(command: Init | End) -> int:
    if command.fresh_producer_id is None:
        # What was known has changed while the caller went to look for one; the next try has it.
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return command.fresh_producer_id


def _may_be(command: Init, known: Transaction) -> bool:
    """Whether the caller may have been this producer, or the one before the last change of its id."""
    was_rotated = command.producer_id == known.previous_producer_id and is_exhausted(command.epoch)
    return command.producer_id == known.producer_id or was_rotated


def _was_bumped(command: End, known: Transaction) -> bool:
    """Whether the same request came before, and has moved the epoch on already."""
    rotated = (
        known.previous_producer_id == command.producer_id
        and is_exhausted(command.epoch)
        and known.epoch == 0
    )
    same = known.producer_id == command.producer_id
    return (same and known.epoch == command.epoch + 1) or rotated


def _markers(ending: Transaction) -> Markers:
    return Markers(
        transactional_id=ending.transactional_id,
        producer_id=ending.producer_id,
        epoch=ending.epoch,
        commit=ending.state is S.PREPARE_COMMIT,
        partitions=ending.partitions,
    )
