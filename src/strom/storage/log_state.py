"""The state of a log: recovery returns it, appends and flushes advance it."""

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
    """Segments, epochs and producers; at first, everything up to the end offset is on disk."""

    segments: Segments
    snapshots: SnapshotFiles
    start_offset: int = 0
    end_offset: int = 0
    """The next offset to assign."""
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
    met_aborted: bool | None = None
    """Whether any transaction was ever aborted; None until the segments were searched for one."""

    def __post_init__(self) -> None:
        self.high_watermark = self.end_offset
        """Consumers see records before it."""
        self.watermark_position = self.segments.active.size_bytes if self.segments else 0
        """Its position in its segment's file."""

    @property
    def last_stable_offset(self) -> int:
        """All transactions before it have ended: read_committed consumers see records before it."""
        first_open = self.producers.first_open_offset
        if first_open is None or first_open > self.high_watermark:
            return self.high_watermark
        return max(first_open, self.start_offset)

    def may_have_gaps(self, base_offset: int) -> bool:
        """Whether compaction may have removed offsets from the segment with this base offset."""
        return base_offset < self.cleaned.gaps_before

    @classmethod
    def nothing(cls, files: FileSystem, folder: str) -> "LogState":
        """The state of a log that could not be opened."""
        return cls(Segments([]), SnapshotFiles(files, folder, []))
