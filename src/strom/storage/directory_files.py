"""The files of a data directory beside its logs: which there are, and what they hold."""

import re
import uuid
from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.storage.checksummed import decode_lines
from strom.storage.files import FileSystem, read_file
from strom.storage.folder import note_missing
from strom.storage.recovery import RecoveryPoint

IDENTITY_FILE = "strom.json"
LOCK_FILE = ".lock"
CHECKPOINT_FILE = "checkpoint"
CLEAN_STOP_FILE = "clean-stop"
COPIES_FOLDER = "damaged"
"""Where `strom verify --repair` keeps the files of a partition as they were."""
_PARTITION_FOLDER = re.compile(r"-[0-9]+$")


def read_points(files: FileSystem, path: str) -> dict[tuple[str, uuid.UUID], RecoveryPoint]:
    """The recovery points in the checkpoint of a data directory; CorruptData if it is damaged."""
    points: dict[tuple[str, uuid.UUID], RecoveryPoint] = {}
    try:
        for line in decode_lines(read_file(files, f"{path}/{CHECKPOINT_FILE}")):
            partition, topic_id, flushed, start = line.split()
            points[partition, uuid.UUID(topic_id)] = RecoveryPoint(int(flushed), int(start))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise CorruptData(str(error)) from error
    return points


class CleanStop(NamedTuple):
    """The quarantined partitions, and the base offsets of all segments of the others."""

    suspects: frozenset[str]
    bases: dict[str, list[int]]


def read_clean_stop(files: FileSystem, path: str) -> CleanStop | None:
    """What a clean stop has stored, None if the last stop was not clean."""
    try:
        lines = [
            line.split() for line in decode_lines(read_file(files, f"{path}/{CLEAN_STOP_FILE}"))
        ]
        bases = {name: [int(base) for base in found] for name, *found in lines if found}
    except (FileNotFoundError, CorruptData, ValueError):
        return None
    return CleanStop(frozenset(name for name, *found in lines if not found), bases)


def take_clean_stop(files: FileSystem, path: str) -> CleanStop | None:
    """Read and remove what a clean stop has stored; missing files are noted in their folders first."""
    clean_stop = read_clean_stop(files, path)
    for name, bases in clean_stop.bases.items() if clean_stop else ():
        note_missing(files, f"{path}/{name}", bases)
    if files.exists(f"{path}/{CLEAN_STOP_FILE}"):
        files.remove(f"{path}/{CLEAN_STOP_FILE}")
        files.sync_directory(path)
    return clean_stop


def list_partition_folders(files: FileSystem, path: str) -> list[str]:
    """The names of the folders in a data directory that hold a partition."""
    return [
        name
        for name in files.list(path)
        if _PARTITION_FOLDER.search(name) and files.is_directory(f"{path}/{name}")
    ]
