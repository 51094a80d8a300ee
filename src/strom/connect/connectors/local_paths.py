"""Tells paths of this machine from URLs, which would be taken for paths in silence."""

import re

# Hadoop writes hdfs:/path too. One letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def scheme_of(path: str) -> str | None:
    """The scheme of a URL, such as hdfs; None of a plain path."""
    found = _SCHEME.match(path.strip())
    return found[1] if found else None
