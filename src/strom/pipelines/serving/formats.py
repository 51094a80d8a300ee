"""Answers as JSON, CSV or Arrow."""

import base64
import io
import json
from datetime import date, datetime
from decimal import Decimal
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


def to_json(rows: Any, indent: int | None = None) -> str:
    """JSON of plain values, with times as ISO 8601."""
    return json.dumps(rows, default=plain, indent=indent, ensure_ascii=False)


def plain(value: Any) -> Any:
    """What JSON can hold, of a value that it does not know."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
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
            json.dumps(value, default=plain)
            if isinstance(value, list | dict)
            else ""
            if value is None
            else value
            if isinstance(value, str | int | float)
            else plain(value)
            for value in row.values()
        )
    return text.getvalue().encode()
