"""Numbers at the ends of their types stop no measure, and variance is exact where it says so."""

import statistics
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest

from strom import pipelines as p
from strom.pipelines.measures.measure import Rows
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


def test_variance_of_less_than_two_numbers_is_null():
    assert by_duckdb("bigint", [None, 3]) is None
    assert by_duckdb("bigint", []) is None


def test_no_measure_stops_at_the_ends_of_its_type(spark, kafka_servers, tmp_path):
    stream = p.Stream(fresh_topic("numbers"), schema="n BIGINT, d DECIMAL(38,4)", partitions=1)
    view = p.View(reads=stream, measures=MEASURES, name="numbers")
    world = World(spark, kafka_servers, tmp_path, stream, [view])
    try:
        world.send([b'{"n": %d, "d": %d}' % (n, 10**33) for n in (LEAST, MOST, MOST)])
        world.send([b'{"n": 1, "d": 0.5}', b'{"n": %d}' % (MOST + 1)])
        assert world.speed().step() == 5
        (seen,) = world.query("SELECT * FROM numbers")
        values = [LEAST, MOST, MOST, 1]
        assert (seen["total"], seen["least"], seen["most"]) == (sum(values), LEAST, MOST)
        assert seen["spread"] == pytest.approx(statistics.variance(values), rel=1e-12)
        assert seen["top"] == [{"item": MOST, "count": 2}]
        wanted = statistics.variance([Fraction(10**33)] * 3 + [Fraction(1, 2)])
        assert seen["decimals"] == pytest.approx(float(wanted), rel=1e-12)
    finally:
        world.close()
