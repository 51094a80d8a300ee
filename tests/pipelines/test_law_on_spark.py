"""The law of views, with states made by Spark: merge(batch, speed) = full batch, for every cut."""

import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.pipelines import Stream, View, window
from strom.pipelines.feeds import feed_of
from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.statements import finish_statement
from strom.pipelines.spark.parsing import parse
from strom.pipelines.spark.reading import RAW_SCHEMA
from tests.pipelines.oracle import EXACT, SCHEMA, SKETCHES, START, agrees, expected, logs
from tests.pipelines.world import as_text

clicks = Stream("clicks", schema=SCHEMA, time="at")
malformed = st.sampled_from([b"", b"{", b"[]", b"null", b'{"at": null}', None])
PARTITIONS = 3


@pytest.fixture(scope="module")
def feed(spark, tmp_path_factory):
    view = View(
        reads=clicks,
        keys=[window("1 minute"), "page"],
        measures={**EXACT, **SKETCHES},
        name="page_minutes",
    )
    return feed_of(spark, view, tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def duckdb():
    connection = connect()
    yield connection
    connection.close()


def states_of(spark, feed, values):
    """The states of records, given as (offset, value)."""
    records = [
        ("clicks", offset % PARTITIONS, offset, START, None, value, None)
        for offset, value in values
    ]
    return feed.states(parse(clicks, spark.createDataFrame(records, RAW_SCHEMA))).toArrow()


def finished(duckdb, feed, *states):
    duckdb.register("given", pa.concat_tables(states))
    table = duckdb.sql(finish_statement(feed.fold, "given")).to_arrow_table()
    return {(row["window_start"], row["page"]): row for row in table.to_pylist()}


@given(rows=logs, bad=st.lists(malformed, max_size=4), cut=st.integers(0, 34))
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_batch_and_speed_together_are_the_whole(spark, feed, duckdb, rows, bad, cut):
    good = [json.dumps(row, default=as_text).encode() for row in rows]
    values = list(enumerate([*bad, *good]))
    cut %= len(values) + 1
    whole = states_of(spark, feed, values)
    batch, speed = states_of(spark, feed, values[:cut]), states_of(spark, feed, values[cut:])
    assert finished(duckdb, feed, batch, speed) == finished(duckdb, feed, whole)
    wanted = expected(rows, lambda row: (row["at"].replace(second=0), row["page"]))
    found = finished(duckdb, feed, whole)
    assert set(found) == set(wanted)
    for key, measures in wanted.items():
        for name, value in measures.items():
            assert agrees(name, found[key][name], value), (key, name)


def test_sketches_of_many_values_stay_within_their_error(spark, feed, duckdb):
    rows = [
        {"user": f"user-{n % 3000}", "page": "/", "ms": n % 1000, "at": START} for n in range(9000)
    ]
    values = list(enumerate(json.dumps(row, default=as_text).encode() for row in rows))
    parts = [states_of(spark, feed, values[start : start + 3000]) for start in (0, 3000, 6000)]
    found = finished(duckdb, feed, *parts)[(START, "/")]
    assert abs(found["visitors"] - 3000) < 3 * 0.02 * 3000
    assert abs(found["kll_median"] - 500) < 2 * 0.017 * 1000
