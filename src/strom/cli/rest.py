"""One call to somebody's REST interface, with what went wrong in plain words."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from strom.model.errors import UserError


def ask_json(
    method: str,
    base: str,
    path: str,
    given: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    patience_s: float,
    reason: Callable[[urllib.error.HTTPError], str],
    if_nobody: str,
) -> Any:
    """What it answers; UserError with the `reason` of a refusal, or what to do if nobody is there."""
    request = urllib.request.Request(  # noqa: S310 - checked below
        base.rstrip("/") + path,
        None if given is None else json.dumps(given).encode(),
        {"Content-Type": "application/json", **(headers or {})},
        method=method,
    )
    if request.type not in ("http", "https"):
        raise UserError(f"{base} is no http address.")
    try:
        with urllib.request.urlopen(request, timeout=patience_s) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            raise UserError(reason(error)) from error
    except OSError as error:
        told = getattr(error, "reason", error)
        raise UserError(f"Nobody answers at {base} ({told}). {if_nobody}") from error
