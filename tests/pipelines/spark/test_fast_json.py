"""JSON that the fast path parses is parsed as by Spark's `from_json`, or left to it."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.pipelines import Stream
from strom.pipelines.spark import parsing
from strom.pipelines.spark.fast_json import MATCHED, FastJsonReader, infer_layout
from strom.pipelines.spark.reading import RAW_SCHEMA

TYPES = {
    "user": "string",
    "n": "int",
    "big": "bigint",
    "small": "smallint",
    "tiny": "tinyint",
    "x": "double",
    "yes": "boolean",
    "at": "timestamp",
}
STREAM = Stream("t", schema=", ".join(f"{name} {kind}" for name, kind in TYPES.items()), time="at")
AT = "2026-11-15T08:00:00.123+00:00"


def record(**changed):
    """A record, with some values as the JSON text given."""
    values = {
        "user": '"ann"',
        "n": "7",
        "big": "8",
        "small": "9",
        "tiny": "1",
        "x": "1.5",
        "yes": "true",
        "at": f'"{AT}"',
    }
    return ("{" + ",".join(f'"{k}":{v}' for k, v in (values | changed).items()) + "}").encode()


TEXTS = [
    '""',
    '"ä€😀"',
    r'"a\"b"',
    r'"\u00e4"',
    r'"\ud800"',
    '"tab\tinside"',
    "null",
    "1",
    "1.50",
    "true",
    '{"a": 1}',
    "[1, 2]",
    "'single'",
]
NUMBERS = [
    "0",
    "-0",
    "-1",
    "007",
    "1.",
    ".5",
    "1.0",
    "-0.0",
    "1e3",
    "1E-2",
    "127",
    "128",
    "-128",
    "32767",
    "32768",
    "2147483647",
    "2147483648",
    "999999999",
    "9223372036854775807",
    "9223372036854775808",
    "123456789012345678",
    "0.1",
    "1e22",
    "123456789.123456789",
    "1e400",
    "NaN",
    "Infinity",
    '"7"',
    '""',
    "null",
    "true",
    "{}",
    "5e-324",
    "0.30000000000000004",
    "-0.0e1",
    "+1",
]
TIMES = [
    "2026-11-15T08:00:00Z",
    "2026-11-15 08:00:00",
    "2026-11-15T08:00:00.1",
    "2026-11-15T08:00:00.123456Z",
    "2026-11-15T08:00:00.1234567Z",
    "2026-11-15T08:00:00+05:30",
    "2026-11-15T08:00:00-17:59",
    "2026-11-15T08:00:00+19:00",
    "2026-11-15T08:00:00+0530",
    "2026-11-15T08:00:00 UTC",
    "2026-11-15T08:00Z",
    "2026-11-15T24:00:00Z",
    "2026-11-15T08:00:60Z",
    "2026-13-01T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2024-02-29T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "1582-10-10T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "2026-11-15",
    "2026",
    "",
    "yesterday",
]
WHOLE = [
    b"",
    b" ",
    b"null",
    b"7",
    b'"text"',
    b"[]",
    b"{}",
    b"{",
    b"\xff\xfe",
    record() + b"\n",
    b" " + record(),
    b"\xef\xbb\xbf" + record(),
    record() + b" trailing",
    record()[:-1],
    record() + record(),
    record(user='"\\\\xff"').replace(b"\\\\xff", b"\xff"),
    record().replace(b":", b" : ").replace(b",", b" ,  "),
    record(extra='"e"'),
    record(extra="{}"),
    record().replace(b'"n":7', b'"n":7,"n":8'),
    record().replace(b'"n":7,', b""),
    record().replace(b'"user"', b'"USER"'),
    json.dumps({"at": AT, "user": "reversed", "n": 1}).encode(),
    json.dumps({"user": 'has "at":null and, commas', "at": AT}).encode(),
    None,
]
ODD = [
    *(record(user=one) for one in TEXTS),
    *(record(**{name: one}) for name in ("n", "big", "small", "tiny", "x") for one in NUMBERS),
    *(record(yes=one) for one in ("true", "false", "null", "1", '"true"', "TRUE")),
    *(record(at=json.dumps(one)) for one in TIMES),
    *(record(at=one) for one in ("null", "0", "1763193600", "1763193600.5")),
    *WHOLE,
]


def rows_of(spark, values):
    """All columns of parsed records, in their order, as texts that tell 0.0 from -0.0."""
    from pyspark.sql import functions as sf

    now = datetime(2026, 11, 15, tzinfo=UTC)
    raw = [("t", 0, place, now, None, value, None) for place, value in enumerate(values)]
    parsed = parsing.parse(STREAM, spark.createDataFrame(raw, RAW_SCHEMA).coalesce(1))
    in_order = parsed.orderBy("_offset").withColumn("at", sf.unix_micros("at"))
    return [repr(row) for row in in_order.collect()]


@pytest.mark.parametrize("first", [record(), json.dumps({"at": "2026-11-15 08:00:00"}).encode()])
def test_odd_records_are_what_spark_alone_makes_of_them(spark, monkeypatch, first):
    # The layout is inferred from the first record, and kept since most records have it.
    values = [*[first] * (len(ODD) + 1), *ODD]
    ours = rows_of(spark, values)
    monkeypatch.setattr(parsing, "fast_json_reader", lambda *_: None)
    assert ours == rows_of(spark, values)


def test_all_records_of_one_layout_match():
    reader = FastJsonReader(TYPES, "UTC")
    rows = reader.read(pa.array([record(n=str(n)) for n in range(100)], pa.binary())).to_pylist()
    assert [row["n"] for row in rows] == list(range(100))
    assert all(row[MATCHED] for row in rows)
    assert rows[0]["at"] == datetime(2026, 11, 15, 8, 0, 0, 123_000, UTC)


def test_the_layout_is_inferred_again_when_records_change():
    reader = FastJsonReader({"user": "string", "n": "int"}, "UTC")
    old, new = b'{"user":"a","n":1}', b'{"n": 2, "v": "x", "user": "b"}'
    assert all(row[MATCHED] for row in reader.read(pa.array([old] * 10)).to_pylist())
    mixed = reader.read(pa.array([old, *[new] * 9])).to_pylist()
    assert [row[MATCHED] for row in mixed] == [False, *[True] * 9]
    assert mixed[1] == {"user": "b", "n": 2, MATCHED: True}


def test_a_batch_with_an_impossible_date_is_left_to_spark():
    read = FastJsonReader(TYPES, "UTC").read(
        pa.array([record(), record(at='"2026-02-30T00:00:00Z"')])
    )
    assert [row[MATCHED] for row in read.to_pylist()] == [False, False]


def test_times_without_a_zone_are_left_to_spark_where_the_session_is_not_in_utc():
    value = b'{"at":"2026-11-15 08:00:00"}'
    assert infer_layout(value, TYPES, "UTC") is not None
    assert infer_layout(value, TYPES, "Europe/Berlin") is None


@pytest.mark.parametrize(
    "value", [None, b"", b"[1]", b'{"n":1,"n":2}', b'{"n":{}}', b'{"other":1}']
)
def test_unsupported_records_have_no_layout(value):
    assert infer_layout(value, TYPES, "UTC") is None


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first text takes long
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "user": st.none() | st.text(),
                "n": st.none() | st.integers(-(2**31), 2**31 - 1),
                "big": st.none() | st.integers(-(2**63), 2**63 - 1),
                "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
                "yes": st.none() | st.booleans(),
                "more": st.none() | st.text() | st.integers(),
            }
        ),
        max_size=20,
    ),
    st.sampled_from([(", ", ": "), (",", ":")]),
)
def test_what_is_read_is_what_was_written(rows, separators):
    types = {name: TYPES[name] for name in ("x", "yes", "user", "n", "big")}
    values = [json.dumps(row, separators=separators, ensure_ascii=False).encode() for row in rows]
    read = FastJsonReader(types, "UTC").read(pa.array(values, pa.binary())).to_pylist()
    for row, made in zip(rows, read, strict=True):
        if made.pop(MATCHED):
            assert made == {name: row[name] for name in types}
        else:
            assert not any(value is not None for value in made.values())
