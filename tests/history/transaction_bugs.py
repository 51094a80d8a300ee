"""Bugs in how transactions are kept, each of which the checker must find."""

from dataclasses import replace

from strom.broker.markers import MarkerWriter, PendingMarkers
from strom.coordination.groups.offsets import CommittedOffsets
from strom.coordination.transactions.commands import AddPartitions, EndTransaction
from strom.coordination.transactions.coordinator import TransactionCoordinator
from strom.storage.log_reader import LogReader
from strom.storage.log_state import LogState
from strom.storage.producer_state import ProducerStates
from strom.wire.kafka.records import ControlType
from tests.history.planting import Plant, around, every
from tests.history.storage_bugs import forget_sequences


def show_open_transactions() -> None:
    """Readers of committed records are shown what is not yet decided."""
    LogState.last_stable_offset = property(lambda self: self.high_watermark)  # type: ignore[assignment]


def hide_that_it_was_aborted() -> None:
    """Readers do not get the list of aborted transactions."""

    @around(LogReader, "_has_aborted")
    def has_aborted(_original, _self):
        return False


def abort_instead_of_committing() -> None:
    """Now and then the marker of a committed transaction says that it was aborted."""
    _write_wrong_markers(ControlType.COMMIT, ControlType.ABORT)


def commit_instead_of_aborting() -> None:
    """Now and then the marker of an aborted transaction says that it was committed."""
    _write_wrong_markers(ControlType.ABORT, ControlType.COMMIT)


def _write_wrong_markers(right: ControlType, wrong: ControlType) -> None:
    due = every(3)

    @around(MarkerWriter, "append")
    def append(original, self, partition, marker, *rest):
        if marker.type is right and due():
            marker = marker._replace(type=wrong)
        return original(self, partition, marker, *rest)


def tell_one_partition() -> None:
    """Only one partition of a transaction gets its marker."""

    @around(PendingMarkers, "begin")
    def begin(original, self, partitions):
        original(self, frozenset(sorted(partitions)[:1]))


def fence_nobody() -> None:
    """A producer goes on though another of its name has come."""
    forget_sequences()

    @around(ProducerStates, "_check_epoch")
    def check_epoch(*_):
        pass

    @around(TransactionCoordinator, "handle")
    def handle(original, self, command, *rest):
        if isinstance(command, AddPartitions | EndTransaction):
            known = self.find(command.transactional_id)
            command = replace(command, epoch=known.epoch, producer_id=known.producer_id)
        return original(self, command, *rest)

    @around(TransactionCoordinator, "check_part_of")
    def check_part_of(original, self, transactional_id, _producer_id, _epoch, partition):
        known = self.find(transactional_id)
        return original(self, transactional_id, known.producer_id, known.epoch, partition)


def keep_aborted_offsets() -> None:
    """The offsets of an aborted transaction come into force."""

    @around(CommittedOffsets, "end_transaction")
    def end_transaction(original, self, transaction, *, committed):
        original(self, transaction, committed=True)


BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        show_open_transactions,
        hide_that_it_was_aborted,
        abort_instead_of_committing,
        commit_instead_of_aborting,
        tell_one_partition,
        fence_nobody,
        keep_aborted_offsets,
    )
}
