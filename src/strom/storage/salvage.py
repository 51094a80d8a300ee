"""Repairing a partition: what is whole stays with its offsets, what is damaged is left out.

Before, all its files are copied. Each later step can be repeated, and a crash after it leaves a log that
is as damaged as before, or less:

1. An empty segment is added at the end, where the log went on: no offset is assigned a second time.
2. For each damaged file, and each one before missing ones, another is written: its whole batches, and
   markers of the transactions whose end is lost.
3. One by one, oldest first, the transaction indexes are adapted to these markers, also those of whole
   files: a transaction that ends at a new marker does not last until the next one of its producer.
   Snapshots that say otherwise are removed.
4. One by one, the new files replace the old ones.
5. `cleaned-offsets` records that the log may have gaps: from now on missing files are not noticed.
6. `log-start-offset` accepts that files at the start are missing, and the notes of missing files go.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from strom.model.errors import CorruptData, StorageError
from strom.storage.batch_walk import walk_batches
from strom.storage.cleaned import read_cleaned, write_cleaned
from strom.storage.damage import DamagedRange
from strom.storage.files import File, FileSystem, create_durable_directory, read_file, replace_file
from strom.storage.folder import CLEANED, forget_missing, read_folder
from strom.storage.producer_state import ProducerInfo, ProducerStates
from strom.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from strom.storage.snapshots import SnapshotFiles
from strom.storage.start_offset import prepare_removal
from strom.storage.transaction_index import AbortedTransaction, decode_aborted, encode_aborted
from strom.storage.verification import (
    INDEX,
    PartitionCheck,
    SegmentCheck,
    read_epochs,
    read_indexed,
)
from strom.wire.kafka.batch import BatchHeader, read_header
from strom.wire.kafka.records import ControlType, Marker, build_marker, read_marker

_COPY_BYTES = 1024 * 1024
_BLOCK_BYTES = 4096
"""What file systems allocate at once: the smallest file takes that much."""


@dataclass
class Salvaged:
    """The result of repairing one partition."""

    name: str
    copy: str
    """The folder with its files as they were."""
    batches: int = 0
    """How many batches of rewritten files were kept."""
    aborted: list[int] = field(default_factory=list)
    """The first offsets of transactions that count as aborted, because their end is damaged."""


def needed_bytes(files: FileSystem, check: PartitionCheck) -> int:
    """The space that a repair needs: for the copy, and for each file that is replaced."""
    copied = [files.size(f"{check.folder}/{name}") for name in files.list(check.folder)]
    found = {each.path for each in check.findings}
    replaced = [each.size_bytes for each in check.segments if each.path in found]
    return sum(-(-size // _BLOCK_BYTES) * _BLOCK_BYTES for size in copied + replaced)


def copy_folder(files: FileSystem, source: str, target: str) -> None:
    """Copy the files of a folder durably."""
    create_durable_directory(files, target)
    for name in files.list(source):
        original, copy = files.open(f"{source}/{name}"), files.open(f"{target}/{name}", create=True)
        try:
            copy.truncate(0)
            for position in range(0, original.size(), _COPY_BYTES):
                copy.append(original.pread(_COPY_BYTES, position))
            copy.datasync()
        finally:
            original.close()
            copy.close()
    files.sync_directory(target)


class _Segment(NamedTuple):
    check: SegmentCheck
    losses: list[DamagedRange]


class Salvage:
    """One repair of one partition, whose files are copied already and used by no broker."""

    def __init__(self, files: FileSystem, check: PartitionCheck, copy: str) -> None:
        self._files = files
        self._check = check
        self._folder = check.folder
        self._epochs = read_epochs(files, check.folder)
        self._last_epoch = 0
        self._producers = ProducerStates()
        self._ended: list[AbortedTransaction] = []
        """The aborted transactions of the segment that is read."""
        self._outdated_from: int | None = None
        """Snapshots after this offset may have transactions as open that the repair has ended."""
        self._snapshots = SnapshotFiles(
            files, check.folder, read_folder(files, check.folder).snapshot_offsets
        )
        self._result = Salvaged(check.name, copy)

    def run(self) -> Salvaged:
        self._continue_after_the_end()
        segments = [_Segment(each, self._losses(each)) for each in self._check.segments]
        has_lost_index = any(each.kind == INDEX for each in self._check.findings)
        if has_lost_index or any(segment.losses for segment in segments):
            ended = [self._write_salvaged(segment) for segment in segments]
            for segment, aborted in zip(segments, ended, strict=True):
                self._save_aborted(segment, aborted)
            self._remove_outdated_snapshots()
            for segment in segments:
                if segment.losses:
                    self._replace(segment.check)
        self._allow_gaps()
        contents = read_folder(self._files, self._folder)
        forget_missing(self._files, self._folder, contents.missing)
        prepare_removal(self._files, self._folder, contents.bases[0])
        return self._result

    def _continue_after_the_end(self) -> None:
        check = self._check
        end = max(check.end_offset, check.point.flushed_offset)
        last = check.segments[-1] if check.segments else None
        is_open_ended = last is None or last.damage or last.end_offset < end
        if is_open_ended and (last is None or last.base_offset != end):
            self._files.open(f"{self._folder}/{end:020d}{LOG_SUFFIX}", create=True).close()
            self._files.sync_directory(self._folder)

    def _allow_gaps(self) -> None:
        paths = {finding.path for finding in self._check.findings}
        bases = [each.base_offset for each in self._check.segments if each.path in paths]
        if bases:
            cleaned = read_cleaned(self._files, self._folder)
            before = max(cleaned.gaps_before, max(bases) + 1)
            write_cleaned(self._files, self._folder, cleaned._replace(gaps_before=before))

    def _losses(self, check: SegmentCheck) -> list[DamagedRange]:
        """The damage in a file, and what is missing after it, as damage without bytes."""
        known = {each.first_offset for each in check.damage}
        size = check.size_bytes
        missing = [
            DamagedRange(size, size, each.first_offset, each.next_offset)
            for each in self._check.findings
            if each.path == check.path and each.first_offset not in known
        ]
        return check.damage + missing

    def _write_salvaged(self, segment: _Segment) -> list[AbortedTransaction]:
        """Write what replaces a file; returns the aborted transactions that end in it.

        Of a whole file only these, and the state of its producers, are needed.
        """
        self._ended = []
        path = segment.check.path
        source = self._files.open(path)
        try:
            if not segment.losses:
                for _ in self._whole_batches(source, segment):
                    pass
                return self._ended
            new = self._files.open(path + CLEANED, create=True)
            try:
                new.truncate(0)
                for data in self._whole_batches(source, segment):
                    new.append(data)
                new.datasync()
            finally:
                new.close()
        finally:
            source.close()
        return self._ended

    def _save_aborted(self, segment: _Segment, aborted: list[AbortedTransaction]) -> None:
        """Save the transaction index of a file, if another one is saved.

        It may lack what counts as aborted from now on, and must not hold what has no marker any more: a
        consumer would filter the records of the producer's next transaction. If only this is done when a
        crash follows, the next repair decides the same.
        """
        if segment.losses or self._saved_aborted(segment.check) != aborted:
            name = segment.check.path.removesuffix(LOG_SUFFIX) + TRANSACTION_INDEX_SUFFIX
            index = encode_aborted(aborted)
            replace_file(self._files, self._folder, name.rpartition("/")[2], index)

    def _remove_outdated_snapshots(self) -> None:
        """Remove snapshots in which a transaction is open that counts as aborted from now on."""
        if self._outdated_from is not None:
            self._snapshots.remove_beyond(self._outdated_from)
            self._files.sync_directory(self._folder)

    def _replace(self, check: SegmentCheck) -> None:
        stem = check.path.removesuffix(LOG_SUFFIX)
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):  # they hold positions
            if self._files.exists(stem + suffix):
                self._files.remove(stem + suffix)
        self._files.rename(check.path + CLEANED, check.path)
        self._files.sync_directory(self._folder)

    def _whole_batches(self, source: File, segment: _Segment) -> Iterator[memoryview | bytearray]:
        position, size = 0, segment.check.size_bytes
        for loss in segment.losses:
            yield from self._batches_between(source, segment, position, loss.position)
            yield from self._markers(segment.check, loss)
            position = loss.end
        yield from self._batches_between(source, segment, position, size)

    def _batches_between(
        self, source: File, segment: _Segment, position: int, end: int
    ) -> Iterator[memoryview]:
        for _, header, data in walk_batches(source, position, end):
            self._last_epoch = header.leader_epoch
            self._result.batches += bool(segment.losses)
            self._update(header, data)
            yield data

    def _update(self, header: BatchHeader, data: memoryview) -> None:
        marker = None
        if header.is_control:
            with suppress(CorruptData):  # as in recovery, it then ends no transaction
                marker = read_marker(data, 0, header)
        self._complete(header, marker)

    def _complete(self, header: BatchHeader, marker: Marker | None) -> None:
        completed = self._producers.update(header, marker)
        if completed is not None and completed.aborted:
            first_open = self._producers.first_open_offset
            stable = header.next_offset if first_open is None else first_open
            self._ended.append(
                AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, stable
                )
            )

    # Transactions

    def _markers(self, segment: SegmentCheck, damage: DamagedRange) -> Iterator[bytearray]:
        """In the place of damage, the ends of the transactions that may have ended there."""
        offset = damage.first_offset
        for producer in list(self._producers.producers()):
            kind = self._end_of(producer, segment, damage)
            if kind is None:
                continue
            if offset >= damage.next_offset:
                raise StorageError(
                    f"{segment.path}: more transactions may have ended at offset "
                    f"{damage.first_offset} than there were records. Restore it from a backup"
                )
            end = Marker(kind, producer.coordinator_epoch or 0)
            marker = build_marker(
                end,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                timestamp=producer.last_timestamp,
                base_offset=offset,
                leader_epoch=self._epoch_at(offset),
            )
            offset += 1
            self._complete(read_header(marker), end)
            yield marker

    def _epoch_at(self, offset: int) -> int:
        """The leader epoch of an offset, else that of the batch before."""
        known = -1 if self._epochs is None else self._epochs.epoch_at(offset)
        return self._last_epoch if known < 0 else known

    def _end_of(
        self, producer: ProducerInfo, segment: SegmentCheck, damage: DamagedRange
    ) -> ControlType | None:
        """How the open transaction of a producer ended in damage, None if it did not.

        What was saved when the segment was closed decides. Its first batch may be damaged too: then it
        began before the first whole one. Unless all that was saved is there, it counts as aborted:
        no record is committed that was not.
        """
        first = producer.transaction_first_offset
        if first is None:
            return None
        end = segment.end_offset if segment.following is None else segment.following
        is_missing_file = damage.position == damage.end == segment.size_bytes
        if is_missing_file:
            end = max(end, damage.next_offset)
        aborted, producers = self._saved_aborted(segment), self._saved_producers(end)
        for each in aborted or ():
            is_same = each.producer_id == producer.producer_id
            if is_same and each.first_offset <= first <= each.last_offset:
                return ControlType.ABORT if each.last_offset < damage.next_offset else None
        for each_open in producers.producers() if producers else ():
            began = each_open.transaction_first_offset
            is_same = each_open.producer_id == producer.producer_id
            if is_same and began is not None and began <= first:
                return None
        # A missing file had an index of its own.
        if aborted is not None and producers is not None and not is_missing_file:
            return ControlType.COMMIT
        self._result.aborted.append(first)
        if self._outdated_from is None:
            self._outdated_from = end
        return ControlType.ABORT

    def _saved_producers(self, end: int) -> ProducerStates | None:
        """The producers at the end of a segment, None if they, or the index beside them, may be lost."""
        found = self._snapshots.newest(end)
        is_durable = end <= self._check.point.flushed_offset
        return found[0] if found is not None and found[1] == end and is_durable else None

    def _saved_aborted(self, segment: SegmentCheck) -> list[AbortedTransaction] | None:
        stem = segment.path.removesuffix(LOG_SUFFIX)
        try:
            data = read_file(self._files, stem + TRANSACTION_INDEX_SUFFIX)
            return decode_aborted(data, segment.base_offset, segment.following)
        except FileNotFoundError:
            indexed = read_indexed(self._files, self._folder)
            return None if indexed is not None and segment.base_offset in indexed else []
        except CorruptData:
            return None
