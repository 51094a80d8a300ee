"""Checking and repairing a data directory, without a broker or beside one.

A directory that a broker uses is only read, and only up to its recovery points. A repair needs the lock.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from strom.model.errors import CorruptData, StorageError, UserError
from strom.model.topics import METADATA_TOPIC
from strom.storage.directory_files import (
    COPIES_FOLDER,
    IDENTITY_FILE,
    LOCK_FILE,
    list_partition_folders,
    read_clean_stop,
    read_points,
    take_clean_stop,
)
from strom.storage.files import FileSystem, is_temporary, read_file, replace_file
from strom.storage.folder import complete_interrupted_work, list_segments
from strom.storage.partition_metadata import FILE_NAME as PARTITION_FILE
from strom.storage.partition_metadata import (
    PartitionMetadata,
    decode_metadata,
    encode_metadata,
)
from strom.storage.recovery import RecoveryPoint
from strom.storage.salvage import Salvage, Salvaged, copy_folder, needed_bytes
from strom.storage.verification import (
    OnBytes,
    PartitionCheck,
    PartitionFinding,
    PartitionVerification,
)
from strom.supervision.file_lock import LockHeld

_ATTEMPTS = 3
"""How often a damaged partition is checked while a broker uses it: files come and go meanwhile."""
_SPARE_BYTES = 1024 * 1024
INCOMPLETE = ".incomplete"
"""Ends the name of a folder with copies until it holds all of them."""
IDENTITY = "identity"
"""The kind of a finding: the file with the id of the topic cannot be read."""


class DirectoryCheck:
    """A data directory that is checked; `holder` is the process that uses it, None if it is locked."""

    def __init__(self, files: FileSystem, path: str, holder: str | None) -> None:
        self.holder = holder
        self.problems: list[str] = []
        """What cannot be repaired."""
        self._files = files
        self._path = path
        self._points: dict[tuple[str, uuid.UUID], RecoveryPoint] = {}
        self._names = list_partition_folders(files, path)
        clean_stop = read_clean_stop(files, path)
        self._bases = clean_stop.bases if clean_stop else {}
        self._read_points()
        if self._names and f"{METADATA_TOPIC}-0" not in self._names:
            self.problems.append(
                f"{path}/{METADATA_TOPIC}-0 with the list of topics is missing; restore it from a backup"
            )

    def _read_points(self) -> None:
        try:
            self._points = read_points(self._files, self._path)
        except CorruptData as damage:
            self.problems.append(
                f"the checkpoint cannot be read ({damage}): damage looks like writes that a "
                "crash interrupted; the next start replaces it"
            )

    @property
    def size_bytes(self) -> int:
        """The size of all log files, for a progress bar."""
        total = 0
        for name in self._names:
            with suppress(FileNotFoundError):
                for _, path in list_segments(self._files, f"{self._path}/{name}"):
                    total += self._files.size(path)
        return total

    def partitions(self, on_bytes: OnBytes) -> Iterator[PartitionCheck]:
        """Check one partition after the other."""
        for name in self._names:
            check = self._check(name, on_bytes)
            if check is not None:
                yield check

    def _check(self, name: str, on_bytes: OnBytes) -> PartitionCheck | None:
        """The check of a partition, None if it was deleted meanwhile."""
        check = None
        for _ in range(_ATTEMPTS):
            try:
                check = self._check_once(name, on_bytes)
            except FileNotFoundError:
                if self.holder is None:
                    raise
                check = None
                continue
            if not check.findings or self.holder is None:
                return check
        return check

    def _check_once(self, name: str, on_bytes: OnBytes) -> PartitionCheck:
        folder = f"{self._path}/{name}"
        stored, known = self._stored_id(folder), self._known_id(name)
        is_changed = stored is None or (known is not None and (name, stored) not in self._points)
        topic_id = known if is_changed else stored
        point = RecoveryPoint() if topic_id is None else self._points.get((name, topic_id))
        check = self._verify(folder, point or RecoveryPoint(), on_bytes)
        if is_changed and stored is not None and check.end_offset < check.point.flushed_offset:
            # Rather a topic that was recreated since the checkpoint.
            return self._verify(folder, RecoveryPoint(), on_bytes)
        if is_changed and check.size_bytes:  # else a crash has interrupted its creation
            check.findings.append(PartitionFinding(IDENTITY, f"{folder}/{PARTITION_FILE}", -1, -1))
        return check

    def _verify(self, folder: str, point: RecoveryPoint, on_bytes: OnBytes) -> PartitionCheck:
        is_online = self.holder is not None
        expected = () if is_online else self._bases.get(folder.rpartition("/")[2], ())
        return PartitionVerification(
            self._files, folder, point, expected=expected, is_online=is_online, on_bytes=on_bytes
        ).run()

    def _stored_id(self, folder: str) -> uuid.UUID | None:
        """The id of the topic that a folder says it belongs to, None if that cannot be read."""
        try:
            return decode_metadata(read_file(self._files, f"{folder}/{PARTITION_FILE}")).topic_id
        except (FileNotFoundError, ValueError):
            return None

    def _known_id(self, name: str) -> uuid.UUID | None:
        """The id of a partition's topic in the checkpoint, None if there are none or several."""
        ids = [topic_id for each, topic_id in self._points if each == name]
        return ids[0] if len(ids) == 1 else None

    # Repair

    def salvage(self, damaged: Iterable[PartitionCheck], stamp: str) -> Iterator[Salvaged]:
        """Copy and repair damaged partitions, one after the other; UserError without enough space.

        `stamp` names the folder with the copies. What cannot be repaired is in `problems`.
        """
        checks = list(damaged)
        self._remove_incomplete_copies()
        needed = _SPARE_BYTES + sum(needed_bytes(self._files, each) for each in checks)
        free = self._files.space(self._path).free
        if free < needed:
            raise UserError(
                f"The repair needs {needed} bytes in {self._path} for a copy of the damaged partitions, "
                f"but {free} are free. Nothing was changed."
            )
        copies = f"{self._path}/{COPIES_FOLDER}/{stamp}"
        while self._files.exists(copies):
            copies += "+"  # an earlier copy is never overwritten: it may be the only one
        self._copy(checks, copies)
        take_clean_stop(self._files, self._path)  # the next start must check the logs
        for check in checks:
            try:
                salvaged = self._salvage_one(check, f"{copies}/{check.name}")
            except StorageError as error:  # the others are repaired nevertheless
                self.problems.append(f"{check.name} was not repaired: {error}")
            else:
                yield salvaged

    def _remove_incomplete_copies(self) -> None:
        """Remove what killed repairs have left: they had changed nothing yet."""
        folder = f"{self._path}/{COPIES_FOLDER}"
        names = self._files.list(folder) if self._files.exists(folder) else []
        for name in names:
            if name.endswith(INCOMPLETE):
                self._files.remove_tree(f"{folder}/{name}")

    def _copy(self, checks: Sequence[PartitionCheck], copies: str) -> None:
        """Copy the partitions; an incomplete copy is removed, because it would only fill the disk."""
        incomplete = copies + INCOMPLETE
        try:
            for check in checks:
                copy_folder(self._files, check.folder, f"{incomplete}/{check.name}")
            if checks:
                self._files.rename(incomplete, copies)
                self._files.sync_directory(f"{self._path}/{COPIES_FOLDER}")
        except BaseException as error:
            with suppress(OSError):
                self._files.remove_tree(incomplete)
            if not isinstance(error, OSError) or not is_temporary(error):
                raise
            raise UserError(
                f"The damaged partitions cannot be copied to {copies}: {error.strerror}. Nothing was "
                "changed. Free space on its file system, memory, or open files (`ulimit -n`), then "
                "repeat the repair."
            ) from error

    def _salvage_one(self, check: PartitionCheck, copy: str) -> Salvaged:
        complete_interrupted_work(self._files, check.folder)
        settled = PartitionVerification(self._files, check.folder, check.point).run()
        salvaged = Salvage(self._files, settled, copy).run()
        topic_id = self._known_id(check.name)
        if topic_id is not None and any(each.kind == IDENTITY for each in check.findings):
            # Even after an older version: an index that does not exist is then rebuilt from the log.
            identity = encode_metadata(PartitionMetadata(topic_id))
            replace_file(self._files, check.folder, PARTITION_FILE, identity)
        return salvaged


@contextmanager
def open_for_check(files: FileSystem, path: str, *, repair: bool) -> Iterator[DirectoryCheck]:
    """A data directory to check, locked unless a broker uses it; UserError if that rules out a repair."""
    path = path.rstrip("/") or "/"
    if not files.exists(f"{path}/{IDENTITY_FILE}"):
        raise UserError(f"{path} is not a data directory of strom: it has no {IDENTITY_FILE}.")
    try:
        lock = files.lock(f"{path}/{LOCK_FILE}")
    except LockHeld as error:
        if repair:
            raise UserError(
                f"{path} is in use by {error.holder}. Stop it before a repair; nothing was changed."
            ) from None
        yield DirectoryCheck(files, path, error.holder)
        return
    try:
        yield DirectoryCheck(files, path, None)
    finally:
        lock.release()
