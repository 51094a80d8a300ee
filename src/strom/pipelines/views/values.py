"""Plain values as texts that are equal for equal values in every process."""

import datetime as dt
import decimal
import fractions
import hashlib
import logging
import pathlib
import re
import uuid
import zoneinfo
from typing import Any

_BY_REPR = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    range,
    type(None),
    type(...),
    decimal.Decimal,
    fractions.Fraction,
    dt.date,
    dt.time,
    dt.timedelta,
    dt.timezone,
    uuid.UUID,
    pathlib.PurePath,
    zoneinfo.ZoneInfo,
)


def plain_value(value: Any) -> list[Any] | None:
    """A value as its type and text; None for other types."""
    kind = type(value)
    if kind in _BY_REPR or (isinstance(value, _BY_REPR) and _is_standard(kind)):
        return [kind.__name__, repr(value)]
    if isinstance(value, re.Pattern):
        return ["pattern", repr(value.pattern), value.flags]
    if isinstance(value, logging.Logger):  # loggers do not affect results
        return ["logger"]
    if kind.__module__.partition(".")[0] in {"numpy", "pandas"}:
        return _of_arrays(value)
    if kind.__module__ == "pyspark.sql.types" and not isinstance(value, type):
        return ["type", value.json() if hasattr(value, "json") else repr(value)]
    return None


def _is_standard(kind: type) -> bool:
    return kind.__module__ in {"builtins", "datetime", "pathlib", "decimal", "zoneinfo", "uuid"}


def _of_arrays(value: Any) -> list[Any] | None:
    """Arrays and frames of numpy and pandas, by content."""
    kind = type(value).__name__
    if kind == "ndarray":
        content = repr(value.tolist()) if value.dtype.hasobject else value.tobytes()
        return [kind, str(value.dtype), list(value.shape), _digest(content)]
    if kind in {"Series", "Index", "DataFrame"} or hasattr(value, "to_frame"):
        frame = value if kind == "DataFrame" else value.to_frame()
        content = repr([list(frame.columns), *frame.to_dict("split")["data"], list(frame.index)])
        return [kind, [str(one) for one in frame.dtypes], _digest(content)]
    if hasattr(value, "dtype") and hasattr(value, "item") and not isinstance(value, type):
        return [str(value.dtype), repr(value.item())]
    return None


def _digest(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()
