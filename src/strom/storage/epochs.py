"""The leader epochs of a log and their start offsets.

Clients use them (OffsetForLeaderEpoch, KIP-320) to detect that the log was truncated since they read it.
"""

from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.storage.checksummed import decode_lines, encode_lines

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1


class EpochStart(NamedTuple):
    """The first offset written under an epoch."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """Epochs in ascending order with ascending start offsets."""

    def __init__(self, starts: list[EpochStart] | None = None) -> None:
        self._starts = starts or []
        self.latest = self._starts[-1].epoch if self._starts else NO_EPOCH
        self.version = 0
        """Counts changes, so that a flush knows whether to save them."""

    @property
    def starts(self) -> list[EpochStart]:
        return self._starts

    def assign(self, epoch: int, offset: int) -> None:
        """Records from `offset` on are written under `epoch`; ignored unless the epoch is new."""
        if epoch > self.latest:
            self.truncate_from(offset)
            self._starts.append(EpochStart(epoch, offset))
            self.latest = epoch
            self.version += 1

    def epoch_at(self, offset: int) -> int:
        """The epoch an offset was written under."""
        for start in reversed(self._starts):
            if start.start_offset <= offset:
                return start.epoch
        return NO_EPOCH

    def end_of(self, epoch: int, end_offset: int) -> EpochStart:
        """The largest epoch up to the requested one, and its end offset, as in Kafka.

        (-1, -1) for an epoch newer than the latest; an epoch older than all known ends where those begin.
        """
        if epoch == NO_EPOCH or epoch > self.latest:
            return EpochStart(NO_EPOCH, NO_OFFSET)
        end = end_offset
        for start in reversed(self._starts):
            if start.epoch <= epoch:
                return EpochStart(start.epoch, end)
            end = start.start_offset
        return EpochStart(epoch, end)

    def truncate_from(self, offset: int) -> None:
        """Remove epochs that began at or after an offset, because the log was truncated there."""
        kept = [start for start in self._starts if start.start_offset < offset]
        if len(kept) != len(self._starts):
            self._starts = kept
            self.latest = kept[-1].epoch if kept else NO_EPOCH
            self.version += 1

    def encode(self) -> bytes:
        return encode_lines([f"{start.epoch} {start.start_offset}" for start in self._starts])

    @classmethod
    def decode(cls, data: bytes) -> "LeaderEpochs":
        """Decode the file; CorruptData if it is damaged."""
        try:
            return cls([EpochStart(*map(int, line.split())) for line in decode_lines(data)])
        except (ValueError, TypeError):
            raise CorruptData("leader epochs are malformed") from None
