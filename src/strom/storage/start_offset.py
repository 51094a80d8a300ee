"""Up to which offset the segments of a log were removed on purpose, stored in `log-start-offset`.

A first segment that begins later means that files are missing. The file is durable before retention
removes a segment. A log without it (written by an older version, or on a full disk) cannot be checked.
"""

import logging

from strom.model.errors import CorruptData
from strom.storage.checksummed import decode_lines, encode_lines
from strom.storage.files import FileSystem, is_temporary, read_file, write_file

logger = logging.getLogger(__name__)

FILE_NAME = "log-start-offset"


def read_start(files: FileSystem, folder: str) -> int | None:
    """The largest offset at which the first segment may begin; None if unknown."""
    try:
        (offset,) = decode_lines(read_file(files, f"{folder}/{FILE_NAME}"))
        return int(offset)
    except FileNotFoundError:
        return None
    except (CorruptData, ValueError) as damage:
        logger.warning("%s/%s cannot be read: %s", folder, FILE_NAME, damage)
        return None


def write_start(files: FileSystem, folder: str, offset: int) -> None:
    """Store it; durable once the folder is synced."""
    path = f"{folder}/{FILE_NAME}"
    write_file(files, f"{path}.tmp", encode_lines([str(offset)]))
    files.rename(f"{path}.tmp", path)


def prepare_removal(files: FileSystem, folder: str, offset: int) -> None:
    """Store durably that the segments before an offset may be missing.

    Without space for it the old value is removed instead: retention must work on a full disk.
    """
    try:
        write_start(files, folder, offset)
    except OSError as error:
        if not is_temporary(error):
            raise
        if files.exists(f"{folder}/{FILE_NAME}"):
            files.remove(f"{folder}/{FILE_NAME}")
    files.sync_directory(folder)
