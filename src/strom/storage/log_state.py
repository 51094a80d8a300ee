"""The state of a log, as recovery returns it."""

from dataclasses import dataclass, field
from typing import NamedTuple

from strom.storage.cleaned import NEVER, Cleaned
from strom.storage.epochs import LeaderEpochs
from strom.storage.files import FileSystem
from strom.storage.producer_state import ProducerStates
from strom.storage.segment import LogSegment
from strom.storage.segments import Segments
from strom.storage.snapshots import ProducerSnapshot, SnapshotFiles


class Unsaved(NamedTuple):
    """What recovery could not save for lack of space; the next flush does."""

    segments: list[LogSegment]
    snapshot: ProducerSnapshot


@dataclass
class LogState:
    """Segments, epochs and producers; everything up to the end offset is on disk."""

    segments: Segments
    snapshots: SnapshotFiles
    start_offset: int = 0
    end_offset: int = 0
    cleaned: Cleaned = NEVER
    recovery_point: int | None = None
    """Everything before it needs no check after a crash; None: the end offset."""
    unsaved: Unsaved | None = None
    epochs_saved: int = 0
    """The version of the epochs that is on disk."""
    entries_synced: int = 0
    """The version of the folder's entries that is on disk, as `flush` counts them."""
    gone: bool = False
    """Whether the log was closed or deleted: threads that work on it must stop."""
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    producers: ProducerStates = field(default_factory=ProducerStates)

    def may_have_gaps(self, base_offset: int) -> bool:
        """Whether compaction may have removed offsets from the segment with this base offset."""
        return base_offset < self.cleaned.gaps_before

    @classmethod
    def nothing(cls, files: FileSystem, folder: str) -> "LogState":
        """The state of a log that could not be opened."""
        return cls(Segments([]), SnapshotFiles(files, folder, []))
