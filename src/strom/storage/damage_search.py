"""Finding the extent of damage that a reader has met in a segment."""

from strom.model.errors import CorruptData
from strom.storage.batch_walk import DamagedBatch, walk_headers
from strom.storage.damage import Scanner
from strom.storage.epochs import LeaderEpochs
from strom.storage.segment import LogSegment
from strom.wire.kafka.batch import HEADER_BYTES, has_valid_checksum, read_header


def learn_damage(
    segment: LogSegment, position: int, epochs: LeaderEpochs, *, has_gaps: bool
) -> bool:
    """Have readers of a segment skip the damage at, or shortly before, a position.

    False if it was known already. With `has_gaps`, compaction may have removed offsets.
    """
    at, expected = _first_damage(segment, position, has_gaps=has_gaps)
    if any(each.position == at for each in segment.damage):
        return False
    scanner = Scanner(segment.file(), segment.size_bytes, segment.next_offset, epochs.epoch_at)
    segment.add_damage(scanner.damage_at(at, expected))
    return True


def _first_damage(segment: LogSegment, position: int, *, has_gaps: bool) -> tuple[int, int]:
    """The first invalid position up to one that a reader has met, and the offset that was there.

    A wrong length makes the batch after it look damaged, so the checksum of the last one decides.
    """
    start, expected = _start_before(segment, position)
    last: tuple[int, int] | None = None
    try:
        for at, header in walk_headers(segment.file(), start, position, segment.damage):
            expected = _after_damage(segment, at, expected)
            gap = header.base_offset - expected
            if gap < 0 or (gap and not has_gaps) or header.next_offset > segment.next_offset:
                position = at
                break
            last = at, expected
            expected = header.next_offset
    except DamagedBatch as damage:
        position = damage.position
    if last is not None and not _is_whole(segment, last[0]):
        return last
    return position, _after_damage(segment, position, expected)


def _is_whole(segment: LogSegment, position: int) -> bool:
    header = read_header(segment.read(position, HEADER_BYTES))
    return has_valid_checksum(segment.read(position, header.size_bytes), 0, header)


def _start_before(segment: LogSegment, position: int) -> tuple[int, int]:
    """A position before the damage with its offset, from the index if it can be read."""
    try:
        entry = segment.offset_index.before(position)
    except CorruptData:
        entry = None
    if entry is None:
        return 0, segment.base_offset
    return entry.position, segment.base_offset + entry.relative_offset


def _after_damage(segment: LogSegment, position: int, expected: int) -> int:
    ends = (each.next_offset for each in segment.damage if each.end <= position)
    return max([expected, *ends])
