"""Lost transaction indexes at a start: noticed by the names of files, and rebuilt from the log.

Without its index, a segment would seem to hold no aborted transaction, and consumers of committed records
would read aborted ones.
"""

import logging
from collections.abc import Collection
from contextlib import suppress

from strom.storage.disk import Disk
from strom.storage.files import is_temporary, read_file, replace_file
from strom.storage.log_state import LogState
from strom.storage.partition_metadata import (
    ALL_SEGMENTS,
    FILE_NAME,
    IndexedSegments,
    PartitionMetadata,
    decode_metadata,
    encode_metadata,
)
from strom.storage.replay import rebuild_aborted
from strom.storage.segment import LogSegment

logger = logging.getLogger(__name__)


class TransactionIndexRecovery:
    """The transaction indexes of one log that is opened; `on_disk` are the segments that have one."""

    def __init__(self, disk: Disk, folder: str, on_disk: Collection[int]) -> None:
        self._disk = disk
        self._folder = folder
        self._on_disk = on_disk
        self._rebuilt: list[LogSegment] = []
        self._metadata: PartitionMetadata | None = None
        with suppress(FileNotFoundError):
            self._metadata = decode_metadata(read_file(disk.files, f"{folder}/{FILE_NAME}"))

    def must_exist(self, base_offset: int) -> bool:
        """Whether a closed segment without an index has lost it; else it never had one."""
        indexed = self._metadata.indexed if self._metadata else ALL_SEGMENTS
        is_known = indexed is not None and base_offset in indexed
        return is_known or base_offset in self._on_disk

    def find_lost(self, state: LogState, checked: Collection[LogSegment]) -> bool:
        """Find the lost indexes of closed segments, except `checked` ones, which have a new one."""
        self._rebuilt = [
            segment
            for segment in state.segments.closed()
            if segment.base_offset not in self._on_disk
            and segment.transactions.must_exist
            and segment not in checked
        ]
        for segment in self._rebuilt:
            logger.warning("%s is missing: rebuilding it from the log", segment.transactions.path)
        return bool(self._rebuilt)

    def rebuild(self, state: LogState) -> None:
        """Rebuild what was found; CorruptData if damage may hide the end of a transaction."""
        rebuild_aborted(state, self._rebuilt)

    def save(self, state: LogState) -> None:
        """Save what was rebuilt, and which segments have an index; any thread.

        Without space the next start does it again.
        """
        try:
            for segment in self._rebuilt:
                segment.transactions.save()
            if self._rebuilt:
                self._disk.files.sync_directory(self._folder)
            self._note_indexed(state)
        except OSError as error:
            if not is_temporary(error):
                raise
            logger.warning("%s: cannot save transaction indexes yet: %s", self._folder, error)

    def _note_indexed(self, state: LogState) -> None:
        """Note the indexes beside segments of an older version, so that their loss is noticed."""
        metadata = self._metadata
        if metadata is None:
            return
        indexed = metadata.indexed or IndexedSegments(state.segments.active.base_offset)
        older = frozenset(
            each.base_offset
            for each in state.segments.closed()
            if each.transactions.must_exist and each.base_offset < indexed.first
        )
        if metadata.indexed is None or not older <= indexed.older:
            new = metadata._replace(indexed=indexed._replace(older=older))
            replace_file(self._disk.files, self._folder, FILE_NAME, encode_metadata(new))
