"""A file that is written exactly once, with the positions of what is in it kept beside it.

`FILE.positions` says how long the file was when it was last made safe, and which offsets of which
topics, by their ids, come next.
Whatever a crash has left behind that length is cut off when the file is opened again, and reading
goes on from those offsets.
"""

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from strom.connect.api import ConnectError, RetriableError
from strom.supervision.file_lock import LockHeld, lock_open_file

_log = logging.getLogger(__name__)


class PositionedFile:
    """A file to append to, in steps that are all there or not at all."""

    def __init__(self, path: Path) -> None:
        """Open it, and cut off what was not made safe."""
        self.path = path
        self._beside = path.with_name(path.name + ".positions")
        self.positions: dict[tuple[str, int], int] = {}
        """The next offset of each partition, including what is not safe yet."""
        self.topic_ids: dict[tuple[str, int], str] = {}
        """Of which topic each of them is; strom 0.1.0 did not store it."""
        safe = self._read_positions()
        self._file: BinaryIO = self._open()
        self.length = os.fstat(self._file.fileno()).st_size
        """How long the file is, including what is not safe yet."""
        if safe is not None and self.length > safe:
            self._file.truncate(safe)
            self.length = safe
        elif safe is not None and 0 < self.length < safe:
            _log.warning(
                "%s was cut by someone else, from %d bytes to %d: going on at its end",
                path,
                safe,
                self.length,
            )
        if self.length != safe:
            self._begin_at_end()

    def append(self, data: bytes, positions: Mapping[tuple[str, int], int]) -> None:
        """Write behind what is there; RetriableError, and nothing written, if that fails."""
        try:
            self._file.seek(self.length)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self.length)
            raise RetriableError(f"{self.path} cannot be written: {error}") from error
        self.length += len(data)
        self.positions.update(positions)

    def _begin_at_end(self) -> None:
        """Store where the file begins to grow: a crash before the first flush is cut off there."""
        try:
            self._write_positions(self.length)
        except OSError as error:
            self.close()
            raise RetriableError(f"{self._beside} cannot be written: {error}") from error

    def make_safe(self) -> None:
        """Bring file and positions to the disk."""
        try:
            os.fsync(self._file.fileno())
            self._write_positions(self.length)
        except OSError as error:
            raise RetriableError(f"{self.path} cannot be made safe: {error}") from error

    def rotate(self, name: str) -> None:
        """Give the file, which must be safe, another name, and begin it anew."""
        self._file.close()
        self.path.rename(self.path.with_name(name))
        # After a crash right here there is no file, and that is as good as an empty one.
        self._write_positions(0)
        self._file = self._open()
        self.length = 0

    def first_line(self) -> bytes:
        """The line that it begins with."""
        with self.path.open("rb") as file:
            return file.readline()

    def close(self) -> None:
        """Let go of it; what is not safe will be cut off by whoever opens it next."""
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
            raise RetriableError(f"Another task still writes to {self.path}.") from None
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
                f"{self._beside} does not hold positions ({error!r}); move it away to write "
                f"behind the end of {self.path}, from the consumer group's offsets on."
            ) from None

    def _write_positions(self, length: int) -> None:
        offsets: dict[str, dict[str, int]] = {}
        topic_ids: dict[str, dict[str, str]] = {}
        for (topic, partition), offset in sorted(self.positions.items()):
            offsets.setdefault(topic, {})[str(partition)] = offset
            if (topic, partition) in self.topic_ids:
                topic_ids.setdefault(topic, {})[str(partition)] = self.topic_ids[topic, partition]
        temporary = self._beside.with_name(self._beside.name + ".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump({"length": length, "offsets": offsets, "topic_ids": topic_ids}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._beside)
        _sync_folder(self._beside.parent)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # folders cannot be synced there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
