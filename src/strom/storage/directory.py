"""A data directory: its identity, its partitions, and the recovery point of each."""

import logging
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from strom.model.errors import ApiError, CorruptData, DirectoryOffline, StorageError, UserError
from strom.model.topic_settings import TopicSettings
from strom.model.topics import TopicPartition, holds_state
from strom.storage.checksummed import encode_lines
from strom.storage.damage import WHAT_TO_DO
from strom.storage.directory_files import (
    CHECKPOINT_FILE,
    CLEAN_STOP_FILE,
    COPIES_FOLDER,
    LOCK_FILE,
    CleanStop,
    list_partition_folders,
    read_points,
    take_clean_stop,
)
from strom.storage.directory_identity import cannot_use, check_not_foreign, identify, short_of
from strom.storage.disk import Disk
from strom.storage.files import (
    FileSystem,
    Lock,
    Space,
    create_durable_directory,
    is_temporary,
    read_file,
    replace_file,
)
from strom.storage.flush import Flush
from strom.storage.folder import read_folder
from strom.storage.log import Log
from strom.storage.log_state import LogState
from strom.storage.parallel import LOGS_AT_ONCE, parts_of, sync_all
from strom.storage.partition_metadata import FILE_NAME as PARTITION_FILE
from strom.storage.partition_metadata import PartitionMetadata, encode_id, encode_metadata
from strom.storage.recovery import FutureEpoch, Recovery, RecoveryPoint
from strom.storage.segment import LogSegment
from strom.storage.segments import Segments
from strom.storage.snapshots import SnapshotFiles
from strom.storage.start_offset import write_start
from strom.supervision.file_lock import LockHeld

logger = logging.getLogger(__name__)

_DELETED_FOLDER = re.compile(r"\.[0-9a-f]{32}-deleted$")


class LogIdentity(NamedTuple):
    """What a log is opened by."""

    partition: TopicPartition
    topic_id: uuid.UUID
    settings: TopicSettings


class _RecoveredLog(NamedTuple):
    """A log that was read and checked, but is not durable yet."""

    identity: LogIdentity
    folder: str
    state: LogState
    make_durable: Callable[[], None]


class DataDirectory:
    """A folder that one broker owns while it holds the lock."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        lock: Lock,
        cluster_id: str,
        *,
        clean_stop: CleanStop | None,
        now_ms: int,
    ) -> None:
        self.path = path
        self.cluster_id = cluster_id
        self.was_clean = clean_stop is not None
        self._disk = disk
        self._lock = lock
        self._suspects = clean_stop.suspects if clean_stop else frozenset()
        self._now_ms = now_ms
        self._points = self._read_checkpoint()

    @classmethod
    def open(cls, files: FileSystem, path: str, *, now_ms: int, node_id: int) -> "DataDirectory":
        """Open or create the directory; UserError if it cannot be used."""
        path = path.rstrip("/") or "/"
        try:
            check_not_foreign(files, path)
            if not files.exists(path):
                create_durable_directory(files, path)
            lock = files.lock(f"{path}/{LOCK_FILE}")
        except LockHeld as error:
            raise UserError(
                f"{path} is already in use by {error.holder}; stop it or choose another folder.",
                setting="log.dirs",
            ) from None
        except OSError as error:
            raise cannot_use(path, error) from error
        try:
            cluster_id = identify(files, path, node_id)
            clean_stop = take_clean_stop(files, path)
            _remove_deleted_folders(files, path)
            return cls(
                Disk(files, path),
                path,
                lock,
                cluster_id,
                clean_stop=clean_stop,
                now_ms=now_ms,
            )
        except OSError as error:
            lock.release()
            raise cannot_use(path, error) from error
        except UserError:
            lock.release()
            raise

    @property
    def offline(self) -> DirectoryOffline | None:
        """Why the directory is offline, None while it is online."""
        return self._disk.offline

    @property
    def refuses_writes(self) -> bool:
        """Whether writes are refused for want of space, descriptors or memory."""
        return self._disk.shortage.is_on

    def check_online(self) -> None:
        """Raise DirectoryOffline after a failure."""
        self._disk.check_online()

    def fail(self, error: BaseException) -> DirectoryOffline:
        """Take the directory offline until a restart."""
        return self._disk.fail(error)

    @property
    def open_file_limit(self) -> int:
        """How many files all logs together may hold open."""
        return self._disk.files.open_file_limit()

    @property
    def _logs_at_once(self) -> int:
        return max(1, min(LOGS_AT_ONCE, self.open_file_limit // 4))

    def space(self) -> Space:
        return self._disk.files.space(self.path)

    # Partitions

    def folder(self, partition: TopicPartition) -> str:
        return f"{self.path}/{partition}"

    def has_log(self, partition: TopicPartition) -> bool:
        return self._disk.files.exists(self.folder(partition))

    def create_log(
        self,
        partition: TopicPartition,
        topic_id: uuid.UUID,
        settings: TopicSettings,
        leader_epoch: int,
    ) -> Log:
        """Create an empty log, durably. May run on any thread."""
        folder, files = self.folder(partition), self._disk.files
        with self._disk.writing():
            if files.exists(folder):
                if not self._is_unwritten(folder):
                    raise StorageError(f"{folder} holds another log; move it away first")
                files.remove_tree(folder)  # left by a crash during its creation
            files.make_directory(folder)
            segment = LogSegment(self._disk, folder, 0, created_ms=self._now_ms)
            files.open(segment.log_path, create=True).close()
            write_start(files, folder, 0)
            replace_file(
                files, folder, PARTITION_FILE, encode_metadata(PartitionMetadata(topic_id))
            )
            files.sync_directory(self.path)
        state = LogState(Segments([segment]), SnapshotFiles(files, folder, []))
        state.epochs.assign(leader_epoch, 0)
        return Log(self._disk, folder, partition, topic_id, settings, state)

    def open_log(
        self,
        partition: TopicPartition,
        topic_id: uuid.UUID,
        settings: TopicSettings,
        leader_epoch: int,
    ) -> Log:
        """Open a log, with recovery if needed; errors as for `open_logs`."""
        return self.open_logs([LogIdentity(partition, topic_id, settings)], leader_epoch)[0]

    def open_logs(self, wanted: Sequence[LogIdentity], leader_epoch: int) -> list[Log]:
        """Open logs, with recovery if needed.

        A damaged log is quarantined, without an error. DirectoryOffline if the disk fails,
        UserError if a shortage prevents reading, which is not damage.
        """
        return [
            log
            for some in parts_of(wanted, self._logs_at_once)
            for log in self._open_some(some, leader_epoch)
        ]

    def _open_some(self, wanted: Sequence[LogIdentity], leader_epoch: int) -> Iterator[Log]:
        """Read and check the logs one after the other, and make them durable in parallel."""
        logs = [self._recover(one, leader_epoch) for one in wanted]
        recovered = [one for one in logs if isinstance(one, _RecoveredLog)]
        errors = sync_all([one.make_durable for one in recovered])
        for one, error in zip(recovered, errors, strict=True):
            if isinstance(error, ApiError):
                raise short_of(one.folder, error.message.rstrip(".")) from error
            if error is not None:
                raise error
        for opened in logs:
            if isinstance(opened, _RecoveredLog):
                state = opened.state
                state.epochs.assign(leader_epoch, state.end_offset)
                yield Log(self._disk, opened.folder, *opened.identity, state)
            else:
                yield opened

    def _recover(self, wanted: LogIdentity, leader_epoch: int) -> Log | _RecoveredLog:
        partition, topic_id, settings = wanted
        point = self._points.get((str(partition), topic_id), RecoveryPoint())
        folder = self.folder(partition)
        recovery = Recovery(
            self._disk,
            folder,
            settings,
            point,
            leader_epoch=leader_epoch,
            now_ms=self._now_ms,
            tolerates_damage=not holds_state(partition.topic),
        )
        try:
            reason = self._identity_problem(partition, topic_id)
            if reason is not None:
                return self._quarantined(partition, topic_id, settings, reason)
            is_clean = self.was_clean and str(partition) not in self._suspects
            state = recovery.open(clean=is_clean)
        except ApiError as error:
            raise short_of(folder, error.message.rstrip(".")) from error
        except OSError as error:
            if is_temporary(error):
                raise short_of(folder, error.strerror) from error
            return self._quarantined(partition, topic_id, settings, str(error))
        except (CorruptData, FutureEpoch) as error:
            return self._quarantined(partition, topic_id, settings, str(error))
        return _RecoveredLog(wanted, folder, state, partial(recovery.make_durable, state))

    def _quarantined(
        self, partition: TopicPartition, topic_id: uuid.UUID, settings: TopicSettings, reason: str
    ) -> Log:
        logger.error(
            "%s is quarantined, nothing in it was changed: %s. %s", partition, reason, WHAT_TO_DO
        )
        folder = self.folder(partition)
        return Log(self._disk, folder, partition, topic_id, settings, None, quarantined=reason)

    def _identity_problem(self, partition: TopicPartition, topic_id: uuid.UUID) -> str | None:
        folder = self.folder(partition)
        try:
            if not self._disk.files.is_directory(folder):
                return f"the folder {folder} is missing"
            text = read_file(self._disk.files, f"{folder}/{PARTITION_FILE}").decode()
        except (OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and is_temporary(error):
                raise
            return f"{folder}/{PARTITION_FILE} cannot be read: {error}"
        if f"topic_id: {encode_id(topic_id)}" not in text.splitlines():
            return f"{folder} belongs to another topic of that name"
        return None

    def _is_unwritten(self, folder: str) -> bool:
        """Whether a folder has no records: a crash interrupted its creation."""
        files = self._disk.files
        bases = read_folder(files, folder).bases
        return all(files.size(f"{folder}/{base:020d}.log") == 0 for base in bases)

    def delete_log(self, log: Log) -> Callable[[], None]:
        """Delete a log; call the result, on any thread, to free the space."""
        log.release()
        return self._rename_for_deletion(log.partition, log.topic_id)

    def delete_leftover(self, partition: TopicPartition, topic_id: uuid.UUID) -> None:
        """Complete a deletion that a crash interrupted."""
        self._rename_for_deletion(partition, topic_id)()

    def _rename_for_deletion(
        self, partition: TopicPartition, topic_id: uuid.UUID
    ) -> Callable[[], None]:
        """Rename the folder for deletion; one that may belong to another topic is left unchanged."""
        files, folder = self._disk.files, self.folder(partition)
        self._disk.forget_garbage(folder)
        self._points.pop((str(partition), topic_id), None)
        doomed = f"{self.path}/{str(partition)[:200]}.{uuid.uuid4().hex}-deleted"
        with self._disk.writing():
            problem = self._identity_problem(partition, topic_id)
        if not files.exists(folder):
            pass
        elif problem is not None and not self._is_unwritten(folder):
            logger.warning("%s is not deleted: %s", folder, problem)
        else:
            with self._disk.writing():
                files.rename(folder, doomed)
                files.sync_directory(self.path)

        def free_space() -> None:
            if files.exists(doomed):
                files.remove_tree(doomed)

        return free_space

    def partition_folders(self) -> list[str]:
        """The names of all folders that hold a partition."""
        return list_partition_folders(self._disk.files, self.path)

    def strays(self, known: set[TopicPartition]) -> list[str]:
        """Folders that belong to no known partition. They are reported, never deleted."""
        files = self._disk.files
        names = {str(partition) for partition in known}
        return [
            name
            for name in files.list(self.path)
            if name not in names
            and name not in {"lost+found", COPIES_FOLDER}
            and not _DELETED_FOLDER.search(name)
            and files.is_directory(f"{self.path}/{name}")
        ]

    # Checkpoints

    def checkpoint(self, logs: Iterable[Log]) -> None:
        """Store the recovery point and start offset of each log. May run on any thread.

        ApiError for a shortage: the old checkpoint stays, and recovery has more to check.
        """
        points = dict(self._points)
        for log in logs:
            if log.quarantined is None:
                # A start after the recovery point could be after the end of the log after a crash.
                start_offset = min(log.start_offset, log.recovery_point)
                point = RecoveryPoint(log.recovery_point, start_offset)
                points[str(log.partition), log.topic_id] = point
        lines = [
            f"{partition} {topic_id} {point.flushed_offset} {point.start_offset}"
            for (partition, topic_id), point in sorted(points.items())
        ]
        with self._disk.writing():
            replace_file(self._disk.files, self.path, CHECKPOINT_FILE, encode_lines(lines))
        self._disk.shortage.on_write_succeeded()

    def _read_checkpoint(self) -> dict[tuple[str, uuid.UUID], RecoveryPoint]:
        try:
            return read_points(self._disk.files, self.path)
        except (CorruptData, OSError) as error:
            if isinstance(error, OSError) and is_temporary(error):
                # Without recovery points, damage to durable data would be taken for a torn write.
                raise short_of(self.path, error.strerror) from error
            logger.warning(
                "%s: the checkpoint cannot be read (%s); checking all logs", self.path, error
            )
            self.was_clean = False
            return {}

    def remove_deleted_files(self, now_ms: int) -> None:
        """Remove files of deleted and replaced segments that are due. May run on any thread."""
        self._disk.remove_garbage(now_ms)

    def close(self, logs: Iterable[Log], *, clean: bool = True) -> None:
        """Flush all logs, mark the stop as clean, and release the lock."""
        try:
            if clean and self.offline is None:
                self._mark_clean_stop(list(logs))
        except ApiError as error:
            logger.warning(
                "%s: the clean stop could not be recorded (%s), so the next start checks the logs.",
                self.path,
                error,
            )
        finally:
            self._disk.open_files.close()
            self._lock.release()

    def _mark_clean_stop(self, logs: list[Log]) -> None:
        for some in parts_of(logs, self._logs_at_once):
            _close_logs(some)
        self.checkpoint(logs)
        lines = [" ".join(map(str, [log.partition, *log.base_offsets])) for log in logs]
        with self._disk.writing():
            replace_file(self._disk.files, self.path, CLEAN_STOP_FILE, encode_lines(lines))


def _close_logs(logs: Sequence[Log]) -> None:
    """Flush and close logs; the first failure is raised when no sync is in flight any more."""
    begun: list[tuple[Log, Flush]] = []
    failure: Exception | None = None
    try:
        for log in logs:
            flush = log.begin_close()
            if flush is not None:
                begun.append((log, flush))
    except (ApiError, DirectoryOffline) as error:
        failure = error
    results = sync_all([flush.sync for _, flush in begun])
    for (log, flush), result in zip(begun, results, strict=True):
        if result is None:
            log.finish_close(flush)
        else:
            log.abandon_flush(flush)
            failure = failure or result
    if failure is not None:
        raise failure


def _remove_deleted_folders(files: FileSystem, path: str) -> None:
    for name in files.list(path):
        if _DELETED_FOLDER.search(name):
            files.remove_tree(f"{path}/{name}")
