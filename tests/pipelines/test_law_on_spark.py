"""The law of views, with states made by Spark: merge(batch, speed) = full batch, for every cut."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.pipelines import Stream, Table, View, window
from strom.pipelines.layers.compiled_views import compile_view
from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.statements import finish_statement
from strom.pipelines.spark.parsing import parse
from strom.pipelines.spark.reading import RAW_SCHEMA
from tests.pipelines.oracle import (
    EXACT,
    SCHEMA,
    SKETCHES,
    START,
    agrees,
    expected,
    expected_in,
    logs,
    rolled_up,
)
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
    return compile_view(spark, view, tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def composed(spark, feed, tmp_path_factory):
    """A rollup of the view, with a table and columns of its own, over rows of rows."""
    folder = tmp_path_factory.mktemp("composed")
    (folder / "shops.csv").write_text("page,kind\n/,front\n/cart,back\n")
    minutes = replace(feed.view, reads=View(reads=clicks, where="ms IS NULL OR ms < 4000"))
    view = View(
        reads=minutes,
        columns={"day": "date_trunc('DAY', window_start)"},
        tables={"shops": Table("shops.csv", schema="page STRING, kind STRING")},
        prepare=lambda rows, shops: rows.join(shops, "page", "left").withColumnRenamed(
            "kind", "user"
        ),
        keys=["day", "user"],  # a name that the record has too, and that measures look at
        measures=rolled_up({**EXACT, **SKETCHES}),
        name="kinds",
    )
    return compile_view(spark, view, folder)


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
    names = feed.view.key_names
    return {tuple(row[name] for name in names): row for row in table.to_pylist()}


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


@given(rows=logs, cut=st.integers(0, 34))
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_law_holds_for_compositions(spark, composed, duckdb, rows, cut):
    values = list(enumerate(json.dumps(row, default=as_text).encode() for row in rows))
    cut %= len(values) + 1
    batch, speed = (states_of(spark, composed, part) for part in (values[:cut], values[cut:]))
    found = finished(duckdb, composed, batch, speed)
    assert found == finished(duckdb, composed, states_of(spark, composed, values))
    kinds = {"/": "front", "/cart": "back", None: None}
    wanted = expected_in(
        rows, lambda row: [(START, kinds[row["page"]])] if (row["ms"] or 0) < 4000 else []
    )
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
