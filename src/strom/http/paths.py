"""Paths of requests: routed while percent-encoded, since names may contain a slash as %2F."""

import re
from urllib.parse import unquote, urlsplit

from strom.http.errors import HttpError
from strom.http.hosts import parse_authority

_MALFORMED_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def path_of_target(target: str, hosts: tuple[str, ...]) -> str:
    """Return the path of a request target, still encoded and without a slash at its end.

    HttpError if the target is malformed, or names another host than the Host header.
    """
    if not target.startswith("/"):
        target = _path_of_absolute(target, hosts)
    if "%" in target:
        if _MALFORMED_ESCAPE.search(target):
            raise HttpError(400, "The path has a % that is not followed by two hexadecimal digits.")
        try:
            unquote(target, errors="strict")
        except UnicodeDecodeError:
            raise HttpError(400, "The path is not UTF-8 after percent-decoding.") from None
    return target.rstrip("/") or "/"


def split_path(path: str) -> tuple[str, ...]:
    """Split an encoded path into its decoded segments: /api/queues/%2F/a is api, queues, /, a."""
    return tuple(unquote(part) for part in path.split("/") if part)


def _path_of_absolute(target: str, hosts: tuple[str, ...]) -> str:
    """RFC 9112, section 3.2.2: servers accept the absolute form, which clients of proxies send.

    Its authority takes precedence over Host. Different ones are refused: a proxy in front may have
    routed by the other.
    """
    try:
        parts = urlsplit(target)
    except ValueError:
        raise HttpError(400, "The request target is not a valid URL.") from None
    if parts.scheme not in ("http", "https"):
        raise HttpError(400, "The request target must be a path or an http URL.")
    named = parse_authority(parts.netloc)
    if named is None or len(hosts) != 1 or named != parse_authority(hosts[0]):
        raise HttpError(400, "The request target names another host than the Host header.")
    return parts.path or "/"
