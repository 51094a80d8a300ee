"""Checking the files of a partition: every batch by its checksum, and that no file is missing.

Nothing is changed. Beyond the recovery point an invalid batch is a write that a crash interrupted, or one
in flight: no damage. What was found is also what `salvage` needs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.model.settings import INT_MAX
from strom.storage.batch_walk import DamagedBatch, walk_batches
from strom.storage.cleaned import read_cleaned
from strom.storage.damage import DamagedRange, Scanner
from strom.storage.epochs import FILE_NAME as EPOCHS_FILE
from strom.storage.epochs import LeaderEpochs
from strom.storage.files import FileSystem, read_file
from strom.storage.folder import list_segments, read_folder
from strom.storage.partition_metadata import FILE_NAME as METADATA_FILE
from strom.storage.partition_metadata import IndexedSegments, decode_metadata
from strom.storage.recovery import RecoveryPoint
from strom.storage.segment import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from strom.storage.start_offset import read_start
from strom.storage.transaction_index import decode_aborted
from strom.wire.kafka.batch import BatchHeader

INDEX = "index"
"""The kind of a finding: a transaction index is lost; the broker rebuilds it."""
OnBytes = Callable[[int], None]
"""Called with the number of bytes that were checked."""


class PartitionFinding(NamedTuple):
    """Durable offsets that cannot be read: their batches are `damaged`, or `missing` with their files.

    Of kind INDEX: a segment whose transaction index is damaged or lost.
    """

    kind: str
    path: str
    """The file with the damage, or the last one before what is missing."""
    first_offset: int
    next_offset: int


@dataclass
class SegmentCheck:
    """What is in one segment file."""

    path: str
    base_offset: int
    end_offset: int
    """The offset after its last batch."""
    following: int | None = None
    """The base offset of the next file."""
    size_bytes: int = 0
    batches: int = 0
    damage: list[DamagedRange] = field(default_factory=list)


@dataclass
class PartitionCheck:
    """What was found in the folder of one partition."""

    name: str
    folder: str
    point: RecoveryPoint
    segments: list[SegmentCheck] = field(default_factory=list)
    findings: list[PartitionFinding] = field(default_factory=list)
    torn_bytes: int = 0
    """Bytes beyond the recovery point that the next start truncates."""

    @property
    def batches(self) -> int:
        return sum(each.batches for each in self.segments)

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.segments)

    @property
    def end_offset(self) -> int:
        return self.segments[-1].end_offset if self.segments else 0


class PartitionVerification:
    """One check of one partition; `is_online` while a broker writes to it.

    `expected` are the base offsets of the files at a clean stop, if known.
    """

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        point: RecoveryPoint,
        *,
        expected: Sequence[int] = (),
        is_online: bool = False,
        on_bytes: OnBytes = lambda _: None,
    ) -> None:
        self._files = files
        self._expected = expected
        self._is_online = is_online
        self._on_bytes = on_bytes
        self._cleaned = read_cleaned(files, folder)
        self._epochs = read_epochs(files, folder)
        self._indexed = read_indexed(files, folder)
        self.check = PartitionCheck(folder.rpartition("/")[2], folder, point)

    def run(self) -> PartitionCheck:
        """Read all files; OSError if one cannot be read."""
        check, found = self.check, list_segments(self._files, self.check.folder)
        self._check_first([base for base, _ in found])
        for index, (base, path) in enumerate(found):
            following = found[index + 1][0] if index + 1 < len(found) else None
            if self._is_online and base >= check.point.flushed_offset:
                break
            if not self._check_segment(base, path, following):
                break
            self._check_index(base, path, following)
        self._check_last()
        self._check_expected([base for base, _ in found])
        return check

    def _check_first(self, bases: list[int]) -> None:
        folder, deleted_before = self.check.folder, self.check.point.start_offset
        start = read_start(self._files, self.check.folder)
        if not bases:
            self._find("missing", folder, start or 0, self.check.point.flushed_offset)
        elif start is not None and bases[0] > max(start, deleted_before):
            self._find("missing", folder, max(start, deleted_before), bases[0])

    def _check_last(self) -> None:
        check = self.check
        if check.segments and check.end_offset < check.point.flushed_offset:
            last = check.segments[-1]
            self._find("missing", last.path, last.end_offset, check.point.flushed_offset)

    def _check_expected(self, bases: list[int]) -> None:
        """Find files that are known to be missing, within gaps that compaction could have left."""
        noted = read_folder(self._files, self.check.folder).missing
        expected = sorted({*self._expected, *noted, *bases})
        ends = [*expected[1:], self.check.point.flushed_offset]
        path = self.check.folder
        for base, end in zip(expected, ends, strict=False):
            if base in bases:
                path = f"{self.check.folder}/{base:020d}{LOG_SUFFIX}"
            elif not any(
                each.first_offset <= base < each.next_offset for each in self.check.findings
            ):
                self._find("missing", path, base, max(end, base + 1))

    def _check_segment(self, base: int, path: str, following: int | None) -> bool:
        """Check one file; False if the log ends in it, with a write that was not complete."""
        check, durable = SegmentCheck(path, base, base, following), self.check.point.flushed_offset
        self.check.segments.append(check)
        for found in self._damage_of(check, following):
            if found.first_offset >= durable:
                self.check.torn_bytes += check.size_bytes - found.position
                check.size_bytes = found.position
                return False
            check.damage.append(found)
            check.end_offset = found.next_offset
            kind = "damaged" if found.end > found.position else "missing"
            self._find(kind, path, found.first_offset, found.next_offset)
        if following is None or self._may_have_gaps(base) or check.end_offset == following:
            return True
        if check.end_offset < durable:
            self._find("missing", path, check.end_offset, following)
        return check.end_offset < durable

    def _check_index(self, base: int, path: str, following: int | None) -> None:
        """Find the transaction index of a closed segment lost, if it was on disk for sure."""
        is_closed = bool(self._expected) or (
            following is not None and following < self.check.point.flushed_offset
        )
        stem = path.removesuffix(LOG_SUFFIX)
        if not is_closed or stem == path:
            return  # of an interrupted swap, which the next start completes
        index = stem + TRANSACTION_INDEX_SUFFIX
        try:
            decode_aborted(read_file(self._files, index), base, following)
        except CorruptData:
            self._find(INDEX, index, base, following or self.check.end_offset)
        except FileNotFoundError:
            if self._indexed is not None and base in self._indexed:
                self._find(INDEX, index, base, following or self.check.end_offset)

    def _damage_of(self, check: SegmentCheck, following: int | None) -> Iterator[DamagedRange]:
        """The damage in a file; its valid batches are counted."""
        file = self._files.open(check.path)
        try:
            size = check.size_bytes = file.size()
            bound = check.base_offset + INT_MAX + 1 if following is None else following
            scanner = Scanner(file, size, bound, self._epochs.epoch_at if self._epochs else None)
            position = 0
            while position < size:
                try:
                    for at, header, _ in walk_batches(file, position, size):
                        position = at
                        self._check_header(check, at, header, bound)
                        self._count(check, header)
                        position = at + header.size_bytes
                except DamagedBatch as damage:
                    found = scanner.damage_at(damage.position, check.end_offset)
                    if found.next_offset == bound and following is None:
                        end = max(self.check.point.flushed_offset, found.first_offset + 1)
                        found = found._replace(next_offset=end)
                    self._on_bytes(found.end - found.position)
                    position = found.end
                    yield found
        finally:
            file.close()

    def _check_header(
        self, check: SegmentCheck, position: int, header: BatchHeader, bound: int
    ) -> None:
        gap = header.base_offset - check.end_offset
        if gap < 0 or (gap and not self._may_have_gaps(check.base_offset)):
            raise DamagedBatch(position, "the offsets are not in order")
        if header.next_offset > bound:
            raise DamagedBatch(position, "a batch overlaps the next segment")
        if not self._epochs or header.base_offset >= self.check.point.flushed_offset:
            return
        if header.leader_epoch != self._epochs.epoch_at(header.base_offset):
            raise DamagedBatch(position, "a batch has an invalid leader epoch")

    def _count(self, check: SegmentCheck, header: BatchHeader) -> None:
        check.batches += 1
        check.end_offset = header.next_offset
        self._on_bytes(header.size_bytes)

    def _may_have_gaps(self, base_offset: int) -> bool:
        return base_offset < self._cleaned.gaps_before

    def _find(self, kind: str, path: str, first_offset: int, next_offset: int) -> None:
        self.check.findings.append(PartitionFinding(kind, path, first_offset, next_offset))


def read_epochs(files: FileSystem, folder: str) -> LeaderEpochs | None:
    """The leader epochs of a log, None if they cannot be read: then the batches are the only source."""
    try:
        return LeaderEpochs.decode(read_file(files, f"{folder}/{EPOCHS_FILE}"))
    except (CorruptData, FileNotFoundError):
        return None


def read_indexed(files: FileSystem, folder: str) -> IndexedSegments | None:
    """Which closed segments have a transaction index, None if an older version has closed them."""
    try:
        return decode_metadata(read_file(files, f"{folder}/{METADATA_FILE}")).indexed
    except (FileNotFoundError, ValueError):
        return None
