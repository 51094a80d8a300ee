"""Results as JSON and CSV: valid for every reader, and with all digits."""

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.formats import encode_table, to_json

SQL = """
SELECT
    'nan'::DOUBLE AS nan,
    '-inf'::FLOAT AS infinite,
    [{'x': 'inf'::DOUBLE, 'y': 0.10::DECIMAL(4,2)}] AS nested,
    MAP {'k': 'nan'::DOUBLE} AS by_key,
    12345678901234567890.123456789012345678::DECIMAL(38,18) AS exact,
    -0.50::DECIMAL(4,2) AS small,
    70141183460469231731687303715884105727::HUGEINT AS huge,
    'ä"\n' AS text,
    TIMESTAMPTZ '2026-01-02 03:04:05+00' AS at,
    '\\xFF'::BLOB AS bytes,
    NULL AS nothing,
    true AS yes
"""


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


@pytest.fixture(scope="module")
def table():
    connection = connect()
    made = connection.sql(SQL).to_arrow_table()
    connection.close()
    return made


def test_json_is_valid_and_exact(table):
    text = encode_table(table, "json").decode()
    (row,) = json.loads(text, parse_constant=refuse, parse_float=Decimal)
    assert row == {
        "nan": "NaN",
        "infinite": "-Infinity",
        "nested": [{"x": "Infinity", "y": Decimal("0.10")}],
        "by_key": [["k", "NaN"]],
        "exact": Decimal("12345678901234567890.123456789012345678"),
        "small": Decimal("-0.50"),
        "huge": 70141183460469231731687303715884105727,
        "text": 'ä"\n',
        "at": "2026-01-02T03:04:05Z",
        "bytes": "/w==",
        "nothing": None,
        "yes": True,
    }
    assert '"nested": [{"x": "Infinity", "y": 0.10}]' in text


def test_csv_is_exact_and_its_cells_hold_valid_json(table):
    (row,) = csv.DictReader(io.StringIO(encode_table(table, "csv").decode()))
    assert row["exact"] == "12345678901234567890.123456789012345678"
    assert row["small"] == "-0.50"
    assert json.loads(row["nested"], parse_constant=refuse) == [{"x": "Infinity", "y": 0.1}]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_plain_values_are_written_as_pythons_own_json(value):
    assert to_json(value) == json.dumps(value, ensure_ascii=False)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=18))
def test_a_decimal_keeps_all_digits(value):
    text = to_json([value])
    assert json.loads(text, parse_float=Decimal, parse_int=Decimal) == [value]
    assert "E" not in text


def test_dates_are_text():
    assert to_json(date(2026, 1, 2)) == '"2026-01-02"'
    assert to_json(datetime(2026, 1, 2, tzinfo=UTC)) == '"2026-01-02T00:00:00Z"'


def test_columns_of_one_name_are_all_shown():
    """As in `SELECT * FROM a JOIN b ON …`."""
    columns = [pa.array([1]), pa.array([2]), pa.array([3])]
    table = pa.table(columns, names=["n", "n", "n_1"])
    assert json.loads(encode_table(table, "json")) == [{"n": 1, "n_2": 2, "n_1": 3}]
    assert encode_table(table, "csv") == b"n,n_2,n_1\n1,2,3\n"


def test_times_beyond_the_years_of_python_are_written():
    """Milliseconds that a producer sends as seconds."""
    times = [1_700_000_000_000 * 1_000_000, 1_500_000, None]
    far = pa.array(times, pa.timestamp("us", tz="UTC"))
    table = pa.table({"at": far})
    shown = ["55840-11-08T22:13:20Z", "1970-01-01T00:00:01.500000Z", None]
    assert json.loads(encode_table(table, "json")) == [{"at": one} for one in shown]
    assert encode_table(table, "csv").decode().splitlines()[1] == shown[0]
