"""A random id in a project's data folder: processes that read the same id see the same folder.

Executors of a cluster compare it before they write: on another machine, the same path may not exist
or may belong to another project.
"""

import uuid
from pathlib import Path

from strom.pipelines.atomic_files import write_atomically
from strom.supervision.file_lock import locked

FILE = "folder.token"
_LENGTH = 32


def read_or_create_token(data: Path) -> str:
    """The token of a data folder, created if missing; concurrent processes get the same token."""
    path = data / FILE
    with locked(path.with_suffix(".lock")):
        known = path.read_text("ascii").strip() if path.exists() else ""
        if len(known) == _LENGTH:
            return known
        token = uuid.uuid4().hex
        write_atomically(path, f"{token}\n".encode())
        return token
