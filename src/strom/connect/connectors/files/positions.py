"""A file that is written exactly once, with the offsets of its content stored beside it.

`FILE.positions` contains the length of the file at the last flush, and the next offset of each
partition with its topic's id. When the file is opened again, everything behind that length, left by a
crash, is truncated, and reading continues from those offsets.
"""

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from strom.connect.api import ConnectError, RetriableError
from strom.supervision.durable_files import write_atomically
from strom.supervision.file_lock import LockHeld, lock_open_file

_log = logging.getLogger(__name__)


class PositionedFile:
    """A file that grows by atomic appends."""

    def __init__(self, path: Path) -> None:
        """Open it, and truncate what was not flushed."""
        self.path = path
        self._beside = path.with_name(path.name + ".positions")
        self.positions: dict[tuple[str, int], int] = {}
        """The next offset of each partition, including what is not flushed yet."""
        self.topic_ids: dict[tuple[str, int], str] = {}
        """The topic ids of these positions; strom 0.1.0 did not store them."""
        safe = self._read_positions()
        self._file: BinaryIO = self._open()
        self.length = os.fstat(self._file.fileno()).st_size
        """The length of the file, including what is not flushed yet."""
        if safe is not None and self.length > safe:
            self._file.truncate(safe)
            self.length = safe
        elif safe is not None and 0 < self.length < safe:
            _log.warning(
                "%s was truncated by another process, from %d bytes to %d: appending at its end",
                path,
                safe,
                self.length,
            )
        if self.length != safe:
            self._begin_at_end()

    def append(self, data: bytes, positions: Mapping[tuple[str, int], int]) -> None:
        """Append to the file; RetriableError, and nothing written, if that fails."""
        try:
            self._file.seek(self.length)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self.length)
            raise RetriableError(f"{self.path} is not writable: {error}") from error
        self.length += len(data)
        self.positions.update(positions)

    def _begin_at_end(self) -> None:
        """Store the initial length: after a crash before the first flush, the file is truncated to it."""
        try:
            self._write_positions(self.length)
        except OSError as error:
            self.close()
            raise RetriableError(f"{self._beside} is not writable: {error}") from error

    def flush(self) -> None:
        """Sync the file and its positions to disk."""
        try:
            os.fsync(self._file.fileno())
            self._write_positions(self.length)
        except OSError as error:
            raise RetriableError(f"{self.path} cannot be flushed: {error}") from error

    def rotate(self, name: str) -> None:
        """Rename the file, which must be flushed, and start a new one."""
        self._file.close()
        self.path.rename(self.path.with_name(name))
        # After a crash at this point there is no file, which is equivalent to an empty one.
        self._write_positions(0)
        self._file = self._open()
        self.length = 0

    def first_line(self) -> bytes:
        with self.path.open("rb") as file:
            return file.readline()

    def close(self) -> None:
        """Close it; the next owner truncates what is not flushed."""
        self._file.close()

    def _open(self) -> BinaryIO:
        try:
            descriptor = os.open(
                self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644
            )
        except OSError as error:
            raise RetriableError(f"{self.path} cannot be opened: {error}") from error
        file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            lock_open_file(descriptor, str(self.path))
        except LockHeld:
            file.close()
            raise RetriableError(f"Another task is still writing to {self.path}.") from None
        except OSError as error:
            file.close()
            raise RetriableError(f"{self.path} cannot be locked: {error}") from error
        return file

    def _read_positions(self) -> int | None:
        try:
            text = self._beside.read_text("utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RetriableError(f"{self._beside} cannot be read: {error}") from error
        try:
            stored = json.loads(text)
            for topic, partitions in stored["offsets"].items():
                for partition, offset in partitions.items():
                    self.positions[topic, int(partition)] = int(offset)
            for topic, partitions in stored.get("topic_ids", {}).items():
                for partition, topic_id in partitions.items():
                    self.topic_ids[topic, int(partition)] = str(topic_id)
            return int(stored["length"])
        except (ValueError, KeyError, AttributeError) as error:
            raise ConnectError(
                f"{self._beside} does not contain valid positions ({error!r}); remove it to append "
                f"to {self.path} from the consumer group's offsets."
            ) from None

    def _write_positions(self, length: int) -> None:
        offsets: dict[str, dict[str, int]] = {}
        topic_ids: dict[str, dict[str, str]] = {}
        for (topic, partition), offset in sorted(self.positions.items()):
            offsets.setdefault(topic, {})[str(partition)] = offset
            if (topic, partition) in self.topic_ids:
                topic_ids.setdefault(topic, {})[str(partition)] = self.topic_ids[topic, partition]
        stored = {"length": length, "offsets": offsets, "topic_ids": topic_ids}
        write_atomically(self._beside, json.dumps(stored).encode())
