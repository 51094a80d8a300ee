"""Damaged ranges of a segment file, and where the next whole batch begins.

The framing of a log file hangs on every batch: after a changed length or offset, the next batch cannot
be found by its position. It is searched for byte by byte; its header, offsets, epoch and checksum
must all fit.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from strom.storage.files import File
from strom.wire.kafka.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    has_valid_checksum,
    read_header,
)

WHAT_TO_DO = (
    "Restore its files from a backup, or stop the broker and salvage what is whole with "
    "`strom verify --repair`."
)
_WINDOW = 1024 * 1024
_MAGIC_POSITION = 16


class DamagedRange(NamedTuple):
    """Bytes of a segment file that are no batches, and the offsets that were in them."""

    position: int
    end: int
    first_offset: int
    next_offset: int

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and self.first_offset <= offset < self.next_offset


def skip_damage(damage: Sequence[DamagedRange], position: int) -> int:
    """The position after the damaged ranges that begin at a position, if any."""
    for each in damage:
        if each.position == position:
            position = each.end
    return position


class Scanner:
    """Looks for whole batches in a file; their offsets end at `bound`, epochs fit if they are known."""

    def __init__(
        self, file: File, end: int, bound: int, epoch_at: Callable[[int], int] | None
    ) -> None:
        self._file = file
        self._end = end
        self._bound = bound
        self._epoch_at = epoch_at

    def damage_at(self, position: int, expected: int) -> DamagedRange:
        """The damage that begins at a position, where a batch with the expected offset was.

        It has no bytes if what is there is whole, and only the batches before are missing.
        """
        if self._is_in_order(position, expected):
            header = read_header(self._file.pread(HEADER_BYTES, position))
            return DamagedRange(position, position, expected, header.base_offset)
        after = self._end_by_length(position, expected)
        if after is None:
            after = next(self._search(position + 1, expected), None)
        if after is None:
            return DamagedRange(position, self._end, expected, self._bound)
        return DamagedRange(position, *after)

    def _is_in_order(self, position: int, expected: int) -> bool:
        """Whether a later batch is at a position, and the one after it continues its offsets."""
        header = self._whole_batch(position, expected)
        if header is None:
            return False
        end = position + header.size_bytes
        if end == self._end:
            return header.next_offset == self._bound
        following = self._whole_batch(end, header.last_offset)
        return following is not None and following.base_offset == header.next_offset

    def _end_by_length(self, position: int, expected: int) -> tuple[int, int, int] | None:
        """The end of a damaged batch by its own length, if a whole batch or the file's end is there."""
        data = self._file.pread(HEADER_BYTES, position)
        if len(data) < HEADER_BYTES:
            return None
        end = position + read_header(data).size_bytes
        if end < position + HEADER_BYTES or end > self._end:
            return None
        if end == self._end:
            return end, expected, self._bound
        header = self._whole_batch(end, expected)
        if header is None or self._is_contradicted(end, header, expected):
            return None
        return end, expected, header.base_offset

    def _search(self, position: int, expected: int) -> Iterator[tuple[int, int, int]]:
        while position + HEADER_BYTES <= self._end:
            window = self._file.pread(min(_WINDOW, self._end - position), position)
            found = window.find(MAGIC, _MAGIC_POSITION)
            while found >= 0:
                at = position + found - _MAGIC_POSITION
                header = self._whole_batch(at, expected, window[found - _MAGIC_POSITION :][:61])
                if header is not None and not self._is_contradicted(at, header, expected):
                    yield at, expected, header.base_offset
                found = window.find(MAGIC, found + 1)
            position += max(1, len(window) - HEADER_BYTES)

    def _is_contradicted(self, position: int, header: BatchHeader, expected: int) -> bool:
        """Whether the batch after a whole one has lower offsets.

        Its base offset, which no checksum covers, is damaged then: all after it would be out of order.
        """
        following = self._whole_batch(position + header.size_bytes, expected)
        return following is not None and following.base_offset < header.next_offset

    def _whole_batch(
        self, position: int, expected: int, start: bytes | None = None
    ) -> BatchHeader | None:
        """The header of a valid batch after the expected offset, None if there is no such batch."""
        if start is None or len(start) < HEADER_BYTES:
            start = self._file.pread(HEADER_BYTES, position)
        if len(start) < HEADER_BYTES:
            return None
        header = read_header(start)
        if header.magic != MAGIC or header.batch_length < HEADER_BYTES - LOG_OVERHEAD:
            return None
        if header.last_offset_delta < 0 or position + header.size_bytes > self._end:
            return None
        if not expected < header.base_offset < header.next_offset <= self._bound:
            return None
        epoch_at = self._epoch_at
        if epoch_at is not None and header.leader_epoch != epoch_at(header.base_offset):
            return None
        data = self._file.pread(header.size_bytes, position)
        return header if has_valid_checksum(data, 0, header) else None
