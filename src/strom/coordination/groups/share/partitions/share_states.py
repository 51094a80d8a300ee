"""What is written down of all share partitions: the state to go on from, and the records for changes.

Only `replay` takes on what the log says. At run time a partition's own state is ahead of what is written
until the record is: the records are made from it here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from strom.coordination.groups.share.partitions.records import (
    Forgotten,
    ShareKey,
    ShareRecord,
    Snapshot,
    Update,
)
from strom.coordination.groups.share.partitions.share_partition import Changes, SharePartition

NO_SNAPSHOT = -1


@dataclass
class SharedState:
    """One share partition, with what the log needs to know besides."""

    key: ShareKey
    partition: SharePartition = field(default_factory=SharePartition)
    snapshot_epoch: int = NO_SNAPSHOT
    state_epoch: int = 0
    created_ms: int = 0
    updates: int = 0
    """How many were written since the last snapshot."""
    snapshot_offset: int = -1
    """Where the last snapshot lies in the log: nothing before it is needed."""

    def replay(self, record: Snapshot | Update, offset: int) -> None:
        """Take on what the log says."""
        if isinstance(record, Snapshot):
            self.partition = SharePartition()
            self.snapshot_epoch = record.snapshot_epoch
            self.state_epoch = record.state_epoch
            self.created_ms = record.created_ms
            self.updates = 0
            self.snapshot_offset = offset
        elif record.snapshot_epoch != self.snapshot_epoch:
            return  # it belongs to a snapshot that counts no more
        else:
            self.updates += 1
        self.partition.replay(record.start_offset, record.batches)

    def record_of(
        self, changes: Changes, *, now_ms: int, leader_epoch: int, most_updates: int
    ) -> Snapshot | Update:
        """The record that writes down what has changed."""
        if self.snapshot_epoch == NO_SNAPSHOT or self.updates >= most_updates:
            return self.snapshot(now_ms=now_ms, leader_epoch=leader_epoch)
        return Update(
            key=self.key,
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=self.partition.start_offset,
            finished_count=self.partition.finished_count,
            batches=tuple(changes.batches),
        )

    def snapshot(self, *, now_ms: int, leader_epoch: int) -> Snapshot:
        """The record that writes down everything."""
        return Snapshot(
            key=self.key,
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=self.partition.start_offset,
            finished_count=self.partition.finished_count,
            created_ms=self.created_ms or now_ms,
            written_ms=now_ms,
            batches=tuple(self.partition.state_batches()),
        )

    def written(self, record: Snapshot | Update, offset: int) -> None:
        """A record made from this state is in the log."""
        if isinstance(record, Snapshot):
            self.snapshot_epoch = record.snapshot_epoch
            self.created_ms = record.created_ms
            self.updates = 0
            self.snapshot_offset = offset
        else:
            self.updates += 1

    def begin_anew(self, start_offset: int) -> None:
        """Forget all deliveries, and begin at an offset (or wherever the group begins)."""
        self.partition = SharePartition(start_offset)
        self.state_epoch += 1


class ShareStates:
    """The states of all share partitions, by key."""

    def __init__(self) -> None:
        self._states: dict[ShareKey, SharedState] = {}

    def __iter__(self) -> Iterator[SharedState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def find(self, key: ShareKey) -> SharedState | None:
        """The state of that partition, if anything was ever written of it."""
        return self._states.get(key)

    def get_or_create(self, key: ShareKey) -> SharedState:
        """The state of that partition, a fresh one if need be."""
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = SharedState(key)
        return state

    def replay(self, record: ShareRecord, offset: int) -> None:
        """Take a record that is in the log into the state."""
        match record:
            case Snapshot():
                self.get_or_create(record.key).replay(record, offset)
            case Update():
                state = self._states.get(record.key)
                if state is not None:
                    state.replay(record, offset)
            case Forgotten():
                self.forget(record.key)

    def forget(self, key: ShareKey) -> None:
        """The group does not read the partition any more."""
        self._states.pop(key, None)
