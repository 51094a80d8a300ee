"""Tells paths of this machine from URLs, which would be taken for paths in silence."""

import os
import re

# Hadoop writes hdfs:/path too. One letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def scheme_of(path: str) -> str | None:
    """The scheme of a URL, such as hdfs; None of a plain path."""
    found = _SCHEME.match(path.strip())
    return found[1] if found else None


def path_problem(path: str) -> str | None:
    """Why no file can have a path, if none can."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        return f"The path {path!r} cannot be the name of a file: {error.reason}."
    return f"The path {path!r} holds a null character." if "\0" in path else None
