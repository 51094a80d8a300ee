"""Whether a folder may become, or is, the data directory of a node."""

import json
import uuid

from strom.model.errors import UserError
from strom.storage.directory_files import IDENTITY_FILE, LOCK_FILE
from strom.storage.files import FileSystem, is_temporary, read_file, replace_file
from strom.storage.partition_metadata import encode_id

FORMAT_VERSION = 1
_OWN_BEFORE_IDENTITY = {LOCK_FILE, f"{IDENTITY_FILE}.tmp", "lost+found"}


def check_not_foreign(files: FileSystem, path: str) -> None:
    """UserError if a folder is not one of strom, and not empty or new either."""
    if not files.exists(path):
        return
    if not files.is_directory(path):
        raise UserError(f"{path} is a file; choose a folder.", setting="log.dirs")
    names = set(files.list(path))
    if IDENTITY_FILE not in names and names - _OWN_BEFORE_IDENTITY:
        raise UserError(
            f"{path} holds files of another program; choose an empty or new folder.",
            setting="log.dirs",
        )


def identify(files: FileSystem, path: str, node_id: int) -> str:
    """The cluster id from the directory's identity file, which is created if missing."""
    identity_path = f"{path}/{IDENTITY_FILE}"
    if not files.exists(identity_path):
        cluster_id = encode_id(uuid.uuid4())
        identity = {"format": FORMAT_VERSION, "cluster_id": cluster_id, "node_id": node_id}
        replace_file(files, path, IDENTITY_FILE, (json.dumps(identity) + "\n").encode())
        return cluster_id
    try:
        identity = json.loads(read_file(files, identity_path))
        version, cluster_id = int(identity["format"]), str(identity["cluster_id"])
        owner = int(identity["node_id"])
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{identity_path} cannot be read; restore it from a backup. Nothing was changed."
        ) from None
    if version != FORMAT_VERSION:
        raise UserError(
            f"{path} was written by another version of strom (format {version}); "
            f"this version supports format {FORMAT_VERSION}."
        )
    if owner != node_id:
        raise UserError(
            f"{path} belongs to node {owner}; set node.id to {owner}, or choose another folder.",
            setting="node.id",
        )
    return cluster_id


def cannot_use(path: str, error: OSError) -> UserError:
    """What to report if the folder cannot be used, or a file in it, such as a lock that is a link."""
    reason = error.strerror or str(error)
    if is_temporary(error):
        return short_of(path, reason)
    at = error.filename or path
    return UserError(f"cannot use {at}: {reason}; choose another folder.", setting="log.dirs")


def short_of(path: str, reason: str | None) -> UserError:
    """What to report if a shortage prevents reading."""
    return UserError(
        f"cannot open {path}: {reason}. Nothing in it was changed or lost. Free space on its file "
        "system, memory, or open files (`ulimit -n`), then start again."
    )
