"""Requests to REST interfaces, with errors for users."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from strom.model.errors import UserError


def call_json(
    method: str,
    base: str,
    path: str,
    given: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float,
    reason: Callable[[urllib.error.HTTPError], str],
    if_unreachable: str,
) -> Any:
    """The decoded body; UserError with the `reason` of an HTTP error, or what to do `if_unreachable`."""
    request = urllib.request.Request(  # noqa: S310 - checked below
        base.rstrip("/") + path,
        None if given is None else json.dumps(given).encode(),
        {"Content-Type": "application/json", **(headers or {})},
        method=method,
    )
    if request.type not in ("http", "https"):
        raise UserError(f"{base} is not an HTTP URL.")
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:  # noqa: S310
            return json.loads(response.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            raise UserError(reason(error)) from error
    except OSError as error:
        cause = getattr(error, "reason", error)
        raise UserError(f"Cannot connect to {base} ({cause}). {if_unreachable}") from error
