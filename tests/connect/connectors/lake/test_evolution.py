"""Which columns a table gets: types that are stored are final, and fields are added."""

import pyarrow as pa
import pytest

from strom.connect.connectors.lake.conversion import Misfit, fit
from strom.connect.connectors.lake.evolution import DELTA, PARQUET, TableColumns, typed_fields

X = pa.struct([("x", pa.int32())])
XY = pa.struct([("x", pa.int32()), ("y", pa.string())])


def columns(table_format, stored, in_memory=None):
    known = TableColumns.of_table(table_format, [] if stored is None else [("v", stored)])
    return known if in_memory is None else known.with_rows(pa.schema([("v", in_memory)]))


def evolved(known, incoming):
    return known.with_rows(pa.schema([("v", incoming)])).schema.field("v").type


@pytest.mark.parametrize("table_format", [DELTA, PARQUET])
@pytest.mark.parametrize(
    ("present", "incoming", "widened"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int8(), pa.int64()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.float32(), pa.int16(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(5, 4), pa.decimal128(7, 4)),
        (pa.decimal128(38, 2), pa.decimal128(38, 4), pa.decimal128(38, 2)),
        (pa.bool_(), pa.int64(), pa.bool_()),
        (pa.string(), pa.binary(), pa.string()),
        (pa.int64(), pa.null(), pa.int64()),
        (pa.list_(pa.int8()), pa.list_(pa.int16()), pa.list_(pa.int16())),
        (pa.int64(), X, pa.int64()),
    ],
)
def test_a_column_is_widened_only_until_it_is_stored(table_format, present, incoming, widened):
    assert evolved(columns(table_format, None, in_memory=present), incoming) == widened
    assert evolved(columns(table_format, present), incoming) == present


@pytest.mark.parametrize(
    ("present", "incoming", "merged"),
    [
        (X, XY, XY),
        (XY, X, XY),
        (pa.list_(X), pa.list_(XY), pa.list_(XY)),
        (pa.struct([("a", pa.list_(X))]), pa.struct([("a", pa.list_(XY))]), None),
        (X, pa.struct([("x", pa.int64()), ("y", pa.string())]), XY),
        (X, pa.struct([("X", pa.int64())]), X),
        (X, pa.struct([("y", pa.null()), ("z", pa.struct([]))]), X),
        (X, pa.struct([("y", pa.duration("us"))]), X),
    ],
)
def test_fields_are_added_at_any_depth(present, incoming, merged):
    for table_format in (DELTA, PARQUET):
        assert evolved(columns(table_format, present), incoming) == (merged or incoming)


def test_formats_differ_in_what_they_store():
    schema = pa.schema(
        [
            ("at", pa.timestamp("ms", "+02:00")),
            ("clock", pa.time64("us")),
            ("empty", pa.struct([])),
        ]
    )
    in_delta = TableColumns.of_table(DELTA, []).with_rows(schema).schema
    in_parquet = TableColumns.of_table(PARQUET, []).with_rows(schema).schema
    assert in_delta == pa.schema([("at", pa.timestamp("us", "UTC"))])
    assert in_parquet == pa.schema([("at", pa.timestamp("ms", "UTC")), ("clock", pa.time64("us"))])


EMPTY = pa.list_(pa.null())


def test_empty_lists_get_their_items_from_rows_that_follow_or_are_lists_of_strings():
    for table_format in (DELTA, PARQUET):
        empty = columns(table_format, None, in_memory=EMPTY)
        for incoming in (pa.list_(pa.int64()), pa.list_(XY), pa.list_(pa.list_(pa.string()))):
            assert evolved(empty, incoming) == incoming
        assert empty.settled().schema.field("v").type == pa.list_(pa.string())
        nested = columns(table_format, None, in_memory=pa.struct([("a", pa.list_(EMPTY))]))
        settled = nested.settled().schema.field("v").type
        assert settled == pa.struct([("a", pa.list_(pa.list_(pa.string())))])


def test_lists_that_were_only_stored_empty_have_no_type():
    fields = [("n", pa.int64()), ("v", EMPTY), ("w", pa.struct([("x", EMPTY), ("y", pa.int8())]))]
    assert typed_fields(pa.schema(fields)) == list(
        pa.schema([("n", pa.int64()), ("w", pa.struct([("y", pa.int8())]))])
    )


def test_maps_of_delta_tables_do_not_evolve_once_stored():
    before, after = pa.map_(pa.string(), X), pa.map_(pa.string(), XY)
    assert evolved(columns(PARQUET, before), after) == after
    assert evolved(columns(DELTA, None, in_memory=before), after) == after
    assert evolved(columns(DELTA, before), after) == before


def test_a_part_of_an_array_is_converted_as_the_whole():
    """Offsets of slices, and what is below nulls, must not shift."""
    given = pa.array([[{"x": 1}], None, [], [{"x": 2}, None, {"x": None}]], pa.list_(X))
    maps = pa.array(
        [[("a", 1)], None, [], [("b", None), ("c", 3)]], pa.map_(pa.string(), pa.int8())
    )
    rows = pa.table({"v": given, "m": maps})
    wide = pa.list_(pa.struct([("y", pa.string()), ("x", pa.int64())]))
    known = TableColumns.of_table(PARQUET, [("v", wide), ("m", pa.map_(pa.string(), pa.int64()))])
    whole = fit(rows, known).to_pylist()
    assert whole[3] == {
        "v": [{"y": None, "x": 2}, None, {"y": None, "x": None}],
        "m": [("b", None), ("c", 3)],
    }
    for start in range(4):
        for length in range(4 - start + 1):
            found = fit(rows.slice(start, length), known)
            found.validate(full=True)
            assert found.to_pylist() == whole[start : start + length]


def test_a_long_value_is_shortened_in_the_message():
    with pytest.raises(Misfit) as caught:
        fit(pa.table({"v": ["q" * 10_000]}), columns(PARQUET, pa.int64()))
    assert len(str(caught.value)) < 400
