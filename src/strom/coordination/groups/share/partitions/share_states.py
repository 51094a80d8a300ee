"""The stored state of all share partitions, and the records for changes.

Only `replay` applies the log. At run time the state of a partition is ahead of the log until its record
is written; the records are created here from that state.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from strom.coordination.groups.share.partitions.records import (
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareStateDeleted,
    ShareUpdate,
)
from strom.coordination.groups.share.partitions.share_partition import SharePartition, StateChanges

NO_SNAPSHOT = -1


@dataclass
class SharedState:
    """One share partition, with the epochs and counters that its records need."""

    key: ShareKey
    partition: SharePartition = field(default_factory=SharePartition)
    snapshot_epoch: int = NO_SNAPSHOT
    state_epoch: int = 0
    created_ms: int = 0
    updates: int = 0
    """How many updates were written since the last snapshot."""
    snapshot_offset: int = -1
    """The log offset of the last snapshot: nothing before it is needed."""

    def replay(self, record: ShareSnapshot | ShareUpdate, offset: int) -> None:
        if isinstance(record, ShareSnapshot):
            self.partition = SharePartition()
            self.snapshot_epoch = record.snapshot_epoch
            self.state_epoch = record.state_epoch
            self.created_ms = record.created_ms
            self.updates = 0
            self.snapshot_offset = offset
        elif record.snapshot_epoch != self.snapshot_epoch:
            return  # stale: it belongs to an older snapshot
        else:
            self.updates += 1
        self.partition.replay(record.start_offset, record.batches)

    def record_of(
        self, changes: StateChanges, *, now_ms: int, leader_epoch: int, most_updates: int
    ) -> ShareSnapshot | ShareUpdate:
        """An update with the changes, or a snapshot after too many updates."""
        if self.snapshot_epoch == NO_SNAPSHOT or self.updates >= most_updates:
            return self.snapshot(now_ms=now_ms, leader_epoch=leader_epoch)
        return ShareUpdate(
            key=self.key,
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=self.partition.start_offset,
            finished_count=self.partition.finished_count,
            batches=tuple(changes.batches),
        )

    def snapshot(self, *, now_ms: int, leader_epoch: int) -> ShareSnapshot:
        """A snapshot of the whole state."""
        return ShareSnapshot(
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

    def on_written(self, record: ShareSnapshot | ShareUpdate, offset: int) -> None:
        """A record of this state was written to the log."""
        if isinstance(record, ShareSnapshot):
            self.snapshot_epoch = record.snapshot_epoch
            self.created_ms = record.created_ms
            self.updates = 0
            self.snapshot_offset = offset
        else:
            self.updates += 1

    def reset(self, start_offset: int) -> None:
        """Drop all deliveries, and restart at an offset (or at the group's initial position)."""
        self.partition = SharePartition(start_offset)
        self.state_epoch += 1


class ShareStates:
    def __init__(self) -> None:
        self._states: dict[ShareKey, SharedState] = {}

    def __iter__(self) -> Iterator[SharedState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def find(self, key: ShareKey) -> SharedState | None:
        """The state of a partition, None if it was never stored."""
        return self._states.get(key)

    def get_or_create(self, key: ShareKey) -> SharedState:
        """The state of a partition, created if missing."""
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = SharedState(key)
        return state

    def replay(self, record: ShareRecord, offset: int) -> None:
        match record:
            case ShareSnapshot():
                self.get_or_create(record.key).replay(record, offset)
            case ShareUpdate():
                state = self._states.get(record.key)
                if state is not None:
                    state.replay(record, offset)
            case ShareStateDeleted():
                self.forget(record.key)

    def forget(self, key: ShareKey) -> None:
        self._states.pop(key, None)
