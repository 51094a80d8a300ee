"""Query results as JSON, CSV or Arrow."""

import base64
import io
import json
import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
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
SLICE_BYTES = 1024 * 1024
"""How much of a batch is encoded at a time: as Python's objects and text, it takes several times that."""
_CALENDAR_US = 146_097 * 86_400_000_000
_YEAR_2000_US = 946_684_800_000_000


def encode_table(table: "pa.Table", form: str) -> bytes:
    """A table in one of the formats of MEDIA_TYPES."""
    return b"".join(encode_batches(table.schema, table.to_batches(), form))


def encode_batches(
    schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]", form: str
) -> Iterator[bytes]:
    """Rows in one of the formats of MEDIA_TYPES, in pieces of a slice each.

    So a caller that limits the result stops after a slice too many, however large the batch is.
    """
    batches = _slices(batches)
    if form == "arrow":
        yield from _arrow(schema, batches)
        return
    names = _unique(schema.names)
    rows = (zip(*map(_values, batch.columns), strict=True) for batch in batches)
    if form == "csv":
        yield _csv([names])
        yield from map(_csv, rows)
        return
    yield b"["
    separator = ""
    for some in rows:
        objects = [to_json(dict(zip(names, row, strict=True))) for row in some]
        if objects:
            yield (separator + ", ".join(objects)).encode()
            separator = ", "
    yield b"]"


def _slices(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The same rows in batches of about SLICE_BYTES, or of one row."""
    for batch in batches:
        pending = [batch]
        while pending:
            part = pending.pop()
            if part.num_rows <= 1 or part.nbytes <= SLICE_BYTES:
                yield part
            else:  # halves, because one row may hold nearly all the bytes
                half = part.num_rows // 2
                pending += [part.slice(half), part.slice(0, half)]


def _unique(names: list[str]) -> list[str]:
    """Column names without duplicates: a join may repeat one, and a JSON object keeps only the last."""
    taken = set(names)
    found: list[str] = []
    for name in names:
        number, chosen = 0, name
        while chosen in found or (number and chosen in taken):
            number += 1
            chosen = f"{name}_{number}"
        found.append(chosen)
    return found


def _values(column: "pa.Array") -> list[Any]:
    """The values of a column; timestamps that Python cannot represent, such as year 55840, as strings."""
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        if not pa.types.is_timestamp(column.type):
            raise
        zone = column.type.tz
        numbers = column.cast(pa.timestamp("us", zone)).cast(pa.int64()).to_pylist()
        return [None if one is None else _far_time(one, bool(zone)) for one in numbers]


def _far_time(microseconds: int, is_utc: bool) -> str:
    """A timestamp of any year in ISO 8601: the Gregorian calendar repeats every 400 years."""
    cycles, rest = divmod(microseconds - _YEAR_2000_US, _CALENDAR_US)
    near = datetime(2000, 1, 1) + timedelta(microseconds=rest)  # noqa: DTZ001 - a calendar only
    return f"{near.year + 400 * cycles:04d}{near.isoformat()[4:]}{'Z' if is_utc else ''}"


def to_json(value: Any) -> str:
    """JSON of a nested value: decimals with all their digits, timestamps in ISO 8601.

    JSON has no NaN and no infinities. They become the strings "NaN", "Infinity" and "-Infinity", as in
    Spark and PostgreSQL: null would mean that there is no value.
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
        return to_text(value)
    if value is None or isinstance(value, int | float):
        return json.dumps(value)
    return encode_basestring(to_text(value))


def to_text(value: Any) -> str:
    """A value that JSON has no type for, as a string."""
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


def _arrow(schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]") -> Iterator[bytes]:
    import pyarrow as pa

    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


def _csv(rows: Iterable[Iterable[Any]]) -> bytes:
    import csv

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(
            to_json(value)
            if isinstance(value, list | dict)
            else ""
            if value is None
            else value
            if isinstance(value, str | int | float)
            else to_text(value)
            for value in row
        )
    return text.getvalue().encode()
