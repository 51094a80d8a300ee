"""A coordinator whose records are safe at once, and whose markers are written when told."""

from typing import Any

from strom.coordination.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    Markers,
    TransactionCommand,
    TransactionOutcome,
    TransactionResponse,
)
from strom.coordination.transactions.coordinator import TransactionCoordinator
from strom.coordination.transactions.records import TransactionMetadata, decode, encode
from strom.coordination.transactions.states import LEGAL_TRANSITIONS
from strom.model.broker_settings import BrokerSettings
from strom.model.topics import TopicPartition

NAME = "shop"
PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
TIMEOUT_MS = 1_000


class World:
    """The coordinator and its log."""

    def __init__(self) -> None:
        self.settings = BrokerSettings()
        self.coordinator = TransactionCoordinator(self.settings)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[Markers] = []
        """Decided and not yet written."""
        self.responses: dict[int, TransactionResponse] = {}
        self.now_ms = 1_000_000
        self._tickets = 0
        self._producer_ids = iter(range(100, 10**6))

    @property
    def known(self) -> TransactionMetadata:
        """What is known of the transactional id."""
        found = self.coordinator.find(NAME)
        assert found is not None
        return found

    def do(self, command: TransactionCommand) -> int:
        """Have it done; the ticket by which its answer is found."""
        self._tickets += 1
        self.carry_out(self.coordinator.handle(command, self._tickets, self.now_ms))
        return self._tickets

    def ask(self, command: TransactionCommand) -> TransactionResponse:
        """Have it done, with its markers; the answer."""
        ticket = self.do(command)
        self.write_markers()
        return self.responses[ticket]

    def carry_out(self, outcome: TransactionOutcome) -> None:
        """Write, replay, answer; remember markers."""
        for record in outcome.records:
            self._check_step(record)
            self.log.append(encode(record))
            self.coordinator.replay(record)
        self.responses.update(outcome.responses)
        if outcome.markers is not None:
            self.markers.append(outcome.markers)

    def _check_step(self, record: Any) -> None:
        before = self.coordinator.find(record.transactional_id)
        if before is not None and isinstance(record, TransactionMetadata):
            assert record.state in LEGAL_TRANSITIONS[before.state], (
                f"from {before.state} to {record.state}"
            )

    def write_markers(self) -> list[Markers]:
        """All partitions are told; what they were told."""
        written, self.markers = self.markers, []
        for one in written:
            done = self.coordinator.on_markers_written(one.transactional_id, self.now_ms)
            assert done.is_durable
            self.carry_out(done)
        return written

    def restart(self) -> None:
        """Lose everything but the log."""
        self.coordinator = TransactionCoordinator(self.settings)
        self.markers = []
        for key, value in self.log:
            record = decode(key, value)
            assert record is not None
            self.coordinator.replay(record)
        for outcome in self.coordinator.resume():
            self.carry_out(outcome)

    # --- commands with the usual values ----------------------------------------------------------

    def init(self, **changes: Any) -> TransactionResponse:
        """Become the producer."""
        fields: dict[str, Any] = {"transactional_id": NAME, "timeout_ms": TIMEOUT_MS}
        command = InitProducer(**(fields | changes))
        if self.coordinator.needs_producer_id(command):
            command = InitProducer(
                **(fields | {"new_producer_id": next(self._producer_ids)} | changes)
            )
        return self.ask(command)

    def add(self, *partitions: TopicPartition, **changes: Any) -> TransactionResponse:
        """Make partitions part of it."""
        fields = self._producer() | {"partitions": frozenset(partitions or {PARTITION})}
        return self.ask(AddPartitions(**(fields | changes)))

    def end_command(
        self, *, commit: bool, bumps_epoch: bool = True, **changes: Any
    ) -> EndTransaction:
        """The command that ends it."""
        fields = self._producer() | {"commit": commit, "bumps_epoch": bumps_epoch} | changes
        command = EndTransaction(**fields)
        if self.coordinator.needs_producer_id(command):
            command = EndTransaction(**({"new_producer_id": next(self._producer_ids)} | fields))
        return command

    def end(self, *, commit: bool, **changes: Any) -> TransactionResponse:
        """End it."""
        return self.ask(self.end_command(commit=commit, **changes))

    def _producer(self) -> dict[str, Any]:
        known = self.coordinator.find(NAME)
        producer_id, epoch = (known.producer_id, known.epoch) if known else (0, 0)
        return {"transactional_id": NAME, "producer_id": producer_id, "epoch": epoch}
