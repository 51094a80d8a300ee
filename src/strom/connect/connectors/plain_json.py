"""Values as plain JSON, for external systems without schemas."""

import base64
import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any


def to_json(value: Any) -> str:
    """The value as one line of JSON; ValueError if that is impossible.

    Decimals become strings, which preserves all digits; times become ISO 8601, bytes base64.
    """
    try:
        return json.dumps(
            value, default=to_plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
    except (TypeError, RecursionError) as error:
        raise ValueError(f"it cannot be written as JSON: {error}") from None


def to_plain(value: Any) -> Any:
    """What JSON has in place of a value that it cannot hold; TypeError if there is nothing."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, date | time | datetime):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"JSON has no equivalent of {type(value).__name__}")
