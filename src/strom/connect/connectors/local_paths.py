"""Local paths, as distinct from URLs, which would silently be used as paths."""

import os
import re

# Hadoop also writes hdfs:/path. A single letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def scheme_of(path: str) -> str | None:
    """The scheme of a URL, such as hdfs; None for a plain path."""
    found = _SCHEME.match(path.strip())
    return found[1] if found else None


def path_problem(path: str) -> str | None:
    """Why a path is invalid, or None."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        return f"The path {path!r} is invalid: {error.reason}."
    return f"The path {path!r} contains a null character." if "\0" in path else None
