"""Folders whose names the libraries that write and read a project's data cannot take."""

import re
from pathlib import Path

from strom.model.errors import UserError

# Patterns of file names to DuckDB; and what delta-rs cannot put into an address, or decodes in one.
_IMPOSSIBLE = re.compile(r"[*?\[\]|^\\\x00-\x1f]|%[0-9A-Fa-f]{2}")


def check_folder(data: Path) -> None:
    """Raise UserError if a project's data cannot lie in a folder of this name."""
    if found := _IMPOSSIBLE.search(str(data)):
        raise UserError(
            f"The path {data} contains {found[0]!r}, which Delta Lake and DuckDB cannot have in names of "
            "folders. Rename the folder, or set `data` in strom.toml to another one."
        )
