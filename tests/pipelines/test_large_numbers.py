"""Numbers at the ends of their types stop no measure, and variance is exact where it says so."""

import statistics
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom import pipelines as p
from strom.pipelines.measures.measure import Rows
from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.formats import encode_table
from strom.pipelines.serving.partials import partial_statement
from strom.pipelines.serving.statements import finish_statement, merge_statement
from strom.pipelines.views.fold import bind
from tests.pipelines.oracle import START
from tests.pipelines.world import World, fresh_topic

LEAST, MOST = -(2**63), 2**63 - 1
MEASURES = {
    "total": p.sum("n"),
    "average": p.mean("n"),
    "spread": p.variance("n"),
    "least": p.min("n"),
    "most": p.max("n"),
    "median": p.quantile("n", 0.5),
    "sketched": p.quantile("n", 0.5, method="kll"),
    "different": p.distinct("n"),
    "top": p.top_k("n", 1),
    "decimals": p.variance("d"),
}
OF_DECIMALS = {
    "d_total": p.sum("d"),
    "d_least": p.min("d"),
    "d_most": p.max("d"),
    "d_first": p.first("d"),
    "d_last": p.last("d"),
    "d_mean": p.mean("d"),
    "d_top": p.top_k("d", 3),
    "d_set": p.collect_set("d"),
}


def by_duckdb(kind, values):
    """The variance of values, folded in two parts and merged."""
    fold = p.variance("x").fold(Rows(lambda text: kind, "at"))
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE rows (part INT, x {kind})")
    for index, value in enumerate(values):
        connection.execute("INSERT INTO rows VALUES (?, ?)", [index % 2, value])
    states = ", ".join(f"{state.partial.duckdb} AS {state.name}" for state in fold.states)
    merged = {state.name: state.merge.format(state.name) for state in fold.states}
    parts = f"SELECT part, {states} FROM rows GROUP BY part"
    (row,) = connection.execute(f"SELECT {fold.finish.format(**merged)} FROM ({parts})").fetchall()
    return row[0]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int", [2_000_000_000, 2_000_000_001, 2_000_000_003]),
        ("bigint", [10**11, 10**11 + 1]),
        ("bigint", [10**11 - number for number in range(300)]),
        ("bigint", [LEAST, MOST, 5]),
        ("bigint", [MOST, MOST, MOST, 1]),
        ("decimal(20,4)", [Decimal("1000000.0101"), Decimal("1000000.0102")]),
        ("decimal(38,0)", [Decimal(10**36), Decimal(5)]),
        ("decimal(38,18)", [Decimal("1.5"), Decimal("2.5")]),
    ],
)
def test_variance_takes_any_number_and_is_exact_up_to_twelve_digits(kind, values):
    wanted = float(statistics.variance(map(Fraction, values)))
    assert by_duckdb(kind, values) == pytest.approx(wanted, rel=1e-12)


money = st.decimals(-(10**18), 10**18, places=18)


@given(st.lists(st.lists(money | st.none(), max_size=5), max_size=4))
@settings(max_examples=15, deadline=None)
def test_decimals_stay_exact_through_any_merges(parts):
    """Of 38 digits a float would keep 16. Merged step by step, in the types that files have."""
    stream = p.Stream("t", schema="d DECIMAL(38,18), at TIMESTAMP", time="at")
    fold = bind(p.View(reads=stream, measures=OF_DECIMALS), stream.columns, lambda text: "int")
    schema = pa.schema(
        [("d", pa.decimal128(38, 18)), ("at", pa.timestamp("us", "UTC")), ("_offset", pa.int64())]
    )
    connection = connect()

    def run(statement, table):
        connection.register("given", table)
        return connection.sql(statement).to_arrow_table()

    merged = run(partial_statement(fold, "given"), schema.empty_table())
    connection.register("given", merged)
    types = {column: kind for column, kind, *_ in connection.sql("DESCRIBE given").fetchall()}
    rows = [(number, value) for number, value in enumerate(chain.from_iterable(parts))]
    left = iter(rows)
    for part in parts:
        given_rows = [
            {"d": value, "at": START, "_offset": number}
            for number, value in islice(left, len(part))
        ]
        table = pa.Table.from_pylist(given_rows, schema)
        states = run(partial_statement(fold, "given"), table)
        both = pa.concat_tables([merged, states])
        merged = run(merge_statement(fold, "given", types), both)
    (seen,) = run(finish_statement(fold, "given"), merged).to_pylist()
    connection.close()
    values = [value for _, value in rows if value is not None]
    # Fractions: Python's own decimals round to 28 digits when they are added.
    assert (seen["d_total"] is None) == (not values)
    assert Fraction(seen["d_total"] or 0) == sum(map(Fraction, values))
    assert seen["d_least"] == min(values, default=None)
    assert seen["d_most"] == max(values, default=None)
    assert (seen["d_first"], seen["d_last"]) == ((values or [None])[0], (values or [None])[-1])
    assert seen["d_set"] == sorted(set(values))
    assert {one["item"] for one in seen["d_top"]} <= set(values)
    if values:
        assert seen["d_mean"] == pytest.approx(float(sum(map(Fraction, values)) / len(values)))


def test_a_sum_of_more_than_38_digits_is_an_error_and_not_another_number():
    fold = p.sum("x").fold(Rows(lambda text: "decimal(38,0)", "at"))
    connection = duckdb.connect()
    connection.execute("CREATE TABLE rows (x DECIMAL(38,0))")
    connection.executemany("INSERT INTO rows VALUES (?)", [[Decimal(9 * 10**37)]] * 2)
    (state,) = fold.states
    for expression in (state.partial.duckdb, state.merge.format("x")):
        with pytest.raises(duckdb.Error):
            connection.execute(f"SELECT {expression} FROM rows").fetchall()
    connection.close()


def test_variance_of_less_than_two_numbers_is_null():
    assert by_duckdb("bigint", [None, 3]) is None
    assert by_duckdb("bigint", []) is None


def test_no_measure_stops_at_the_ends_of_its_type(spark, kafka_servers, tmp_path):
    stream = p.Stream(fresh_topic("numbers"), schema="n BIGINT, d DECIMAL(38,4)", partitions=1)
    view = p.View(reads=stream, measures=MEASURES | OF_DECIMALS, name="numbers")
    world = World(spark, kafka_servers, tmp_path, stream, [view])
    try:
        world.send([b'{"n": %d, "d": %d}' % (n, 10**33) for n in (LEAST, MOST, MOST)])
        world.send([b'{"n": 1, "d": 0.5001}', b'{"n": %d}' % (MOST + 1)])
        assert world.speed().step() == 5
        (seen,) = world.query("SELECT * FROM numbers")
        values = [LEAST, MOST, MOST, 1]
        assert (seen["total"], seen["least"], seen["most"]) == (sum(values), LEAST, MOST)
        assert seen["spread"] == pytest.approx(statistics.variance(values), rel=1e-12)
        assert seen["top"] == [{"item": MOST, "count": 2}]
        wanted = statistics.variance([Fraction(10**33)] * 3 + [Fraction(5001, 10_000)])
        assert seen["decimals"] == pytest.approx(float(wanted), rel=1e-12)
        half, large = Decimal("0.5001"), Decimal(10**33)
        assert Fraction(seen["d_total"]) == 3 * Fraction(large) + Fraction(half)
        assert (seen["d_least"], seen["d_most"]) == (half, large)
        assert (seen["d_first"], seen["d_last"]) == (large, half)
        served = encode_table(world.server.query("SELECT d_total, d_set FROM numbers"), "json")
        assert served == (
            b'[{"d_total": 3000000000000000000000000000000000.5001, '
            b'"d_set": [0.5001, 1000000000000000000000000000000000.0000]}]'
        )
    finally:
        world.close()
