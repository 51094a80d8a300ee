"""Answers as JSON, CSV or Arrow."""

import base64
import io
import json
import math
from datetime import date, datetime
from decimal import Decimal
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}


def written(table: "pa.Table", form: str) -> bytes:
    """A table as bytes in one of the forms."""
    if form == "arrow":
        return _arrow(table)
    return _csv(table) if form == "csv" else to_json(table.to_pylist()).encode()


def to_json(value: Any) -> str:
    """JSON of a value and all that it holds: decimals with all their digits, times as ISO 8601.

    JSON has no NaN and no infinities. They are written as the strings "NaN", "Infinity" and "-Infinity",
    as Spark and PostgreSQL do: null would say that there is no value.
    """
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        members = (f"{encode_basestring(str(key))}: {to_json(one)}" for key, one in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_json, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if isinstance(value, Decimal):
        return plain(value)
    if value is None or isinstance(value, int | float):
        return json.dumps(value)
    return encode_basestring(plain(value))


def plain(value: Any) -> str:
    """A value that JSON does not know, as text."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)


def _arrow(table: "pa.Table") -> bytes:
    import pyarrow as pa

    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _csv(table: "pa.Table") -> bytes:
    import csv

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        writer.writerow(
            to_json(value)
            if isinstance(value, list | dict)
            else ""
            if value is None
            else value
            if isinstance(value, str | int | float)
            else plain(value)
            for value in row.values()
        )
    return text.getvalue().encode()
