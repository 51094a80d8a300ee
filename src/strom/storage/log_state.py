"""What a log consists of, as recovery hands it over."""

from dataclasses import dataclass, field

from strom.storage.epochs import LeaderEpochs
from strom.storage.files import Files
from strom.storage.producer_state import ProducerStates
from strom.storage.segments import Segments
from strom.storage.snapshots import SnapshotFiles


@dataclass
class LogState:
    """Segments and the memory beside them; everything up to the end is on disk."""

    segments: Segments
    snapshots: SnapshotFiles
    start_offset: int = 0
    end_offset: int = 0
    cleaned_offset: int | None = 0
    """Compaction has been through everything before this offset; None if that is not known."""
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    producers: ProducerStates = field(default_factory=ProducerStates)

    def may_have_gaps(self, base_offset: int) -> bool:
        """Whether compaction may have taken offsets out of the segment that begins there."""
        return self.cleaned_offset is None or base_offset < self.cleaned_offset

    @classmethod
    def nothing(cls, files: Files, folder: str) -> "LogState":
        """What is known of a log that could not be opened."""
        return cls(Segments([]), SnapshotFiles(files, folder, []))
