"""What a log consists of, as recovery hands it over."""

from dataclasses import dataclass, field
from typing import NamedTuple

from strom.storage.cleaned import NEVER, Cleaned
from strom.storage.epochs import LeaderEpochs
from strom.storage.files import Files
from strom.storage.producer_state import ProducerStates
from strom.storage.segment import Segment
from strom.storage.segments import Segments
from strom.storage.snapshots import Snapshot, SnapshotFiles


class Unsaved(NamedTuple):
    """What recovery would have saved beside the data, had there been space; the next flush does."""

    segments: list[Segment]
    snapshot: Snapshot


@dataclass
class LogState:
    """Segments and the memory beside them; everything up to the end is on disk."""

    segments: Segments
    snapshots: SnapshotFiles
    start_offset: int = 0
    end_offset: int = 0
    cleaned: Cleaned = NEVER
    recovery_point: int | None = None
    """Everything before it needs no check after a crash; None if that holds up to the end."""
    unsaved: Unsaved | None = None
    epochs_saved: int = 0
    """Which version of the epochs is on disk."""
    entries_synced: int = 0
    """Which state of the folder's entries is on disk, as `flush` counts them."""
    gone: bool = False
    """Whether the log was closed or deleted: other threads that work on it may stop."""
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    producers: ProducerStates = field(default_factory=ProducerStates)

    def may_have_gaps(self, base_offset: int) -> bool:
        """Whether compaction may have taken offsets out of the segment that begins there."""
        return base_offset < self.cleaned.gaps_before

    @classmethod
    def nothing(cls, files: Files, folder: str) -> "LogState":
        """What is known of a log that could not be opened."""
        return cls(Segments([]), SnapshotFiles(files, folder, []))
