"""The law of views without Java: DuckDB makes the partial states, merges and finishes them."""

import math
from datetime import timedelta
from itertools import pairwise

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.pipelines import Stream, View, window
from strom.pipelines.serving import sketch_functions
from strom.pipelines.serving.partials import partial_statement
from strom.pipelines.serving.statements import finish_statement, merge_statement
from strom.pipelines.views.fold import bind
from tests.pipelines.oracle import (
    EXACT,
    SCHEMA,
    SKETCHES,
    START,
    agrees,
    expected_in,
    logs,
    rolled_up,
)

clicks = Stream("clicks", schema=SCHEMA, time="at")
KINDS = {
    "by page": View(reads=clicks, keys=["page"], measures=EXACT),
    "overall": View(reads=clicks, measures=EXACT),
    "by minute": View(reads=clicks, keys=[window("1 minute"), "page"], measures=EXACT),
}
_minutes = KINDS["by minute"]
_quarters = View(
    reads=_minutes,
    columns={"page": "upper(page)"},
    keys=[window("5 minutes"), "page"],
    measures=rolled_up(EXACT),
)
KINDS |= {
    "minutes rolled up": View(
        reads=_minutes, keys=[window("2 minutes")], measures=rolled_up(EXACT)
    ),
    "rolled up twice": View(
        reads=_quarters, where="page = '/CART'", keys=["page"], measures=rolled_up(EXACT)
    ),
    "rows of rows": View(
        reads=View(reads=View(reads=clicks, where="ms > 0"), columns={"big": "ms > 100"}),
        keys=["big"],
        measures=EXACT,
    ),
    "overlaps kept": View(
        reads=View(
            reads=clicks,
            keys=[window("2 minutes", every="1 minute"), "page"],
            measures=EXACT,
        ),
        keys=["window_start"],
        measures=rolled_up(EXACT),
    ),
}


def minute(row, length=1):
    """The beginning of the row's window."""
    at = row["at"]
    return at.replace(minute=at.minute - at.minute % length, second=0)


# In which groups a row is.
KEYS = {
    "by page": lambda row: [(row["page"],)],
    "overall": lambda row: [()],
    "by minute": lambda row: [(minute(row), row["page"])],
    "minutes rolled up": lambda row: [(minute(row, 2),)],
    "rolled up twice": lambda row: [("/CART",)] if row["page"] == "/cart" else [],
    "rows of rows": lambda row: [(row["ms"] > 100,)] if row["ms"] and row["ms"] > 0 else [],
    "overlaps kept": lambda row: [(minute(row),), (minute(row) - timedelta(minutes=1),)],
}
ARROW = pa.schema(
    [
        ("user", pa.string()),
        ("page", pa.string()),
        ("ms", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("_offset", pa.int64()),
    ]
)


class Engine:
    """DuckDB over Arrow tables."""

    def __init__(self):
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone='UTC'")
        sketch_functions.register(self.connection)

    def run(self, statement, table):
        self.connection.register("given", table)
        return self.connection.sql(statement).to_arrow_table()

    def partial(self, fold, rows, first_offset=0):
        rows = [{**row, "_offset": first_offset + index} for index, row in enumerate(rows)]
        return self.run(partial_statement(fold, "given"), pa.Table.from_pylist(rows, ARROW))

    def merge(self, fold, *states):
        self.connection.register("given", states[0])
        described = self.connection.sql("DESCRIBE given").fetchall()
        types = {name: kind for name, kind, *_ in described}
        return self.run(merge_statement(fold, "given", types), pa.concat_tables(states))

    def finish(self, fold, *states):
        table = self.run(finish_statement(fold, "given"), pa.concat_tables(states))
        return {tuple(row[name] for name in fold.view.key_names): row for row in table.to_pylist()}


@pytest.fixture(scope="module")
def engine():
    engine = Engine()
    yield engine
    engine.connection.close()


def bound(view):
    added = {"window_start": "timestamp", "big": "boolean"}
    return bind(view, clicks.columns | added, lambda expression: "int")


def cut_into(rows, cuts):
    """Slices of a log, each with the offset of its first row."""
    edges = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    return [(start, rows[start:end]) for start, end in pairwise(edges)]


@pytest.mark.parametrize("kind", KINDS)
@given(rows=logs, cuts=st.lists(st.integers(0, 30), max_size=4))
@settings(max_examples=10, deadline=None)
def test_any_cuts_give_what_a_plain_computation_gives(engine, kind, rows, cuts):
    fold = bound(KINDS[kind])
    states = [engine.partial(fold, part, start) for start, part in cut_into(rows, cuts)]
    found = engine.finish(fold, engine.partial(fold, []), *states)
    wanted = expected_in(rows, KEYS[kind])
    if rows or fold.view.keys:
        assert set(found) == set(wanted)
    for key, values in wanted.items():
        for name, value in values.items():
            assert agrees(name, found[key][name], value), (key, name, found[key][name], value)


@given(rows=logs, cuts=st.lists(st.integers(0, 30), min_size=2, max_size=2), turned=st.booleans())
@settings(max_examples=12, deadline=None)
def test_merging_is_associative_and_commutative_with_an_identity(engine, rows, cuts, turned):
    fold = bound(KINDS["by page"])
    identity = engine.partial(fold, [])
    states = [engine.partial(fold, part, start) for start, part in cut_into(rows, cuts)]
    if turned:
        states.reverse()
    together = engine.finish(fold, identity, *states)
    merged = identity
    for state in states:
        merged = engine.merge(fold, merged, state)
    assert engine.finish(fold, merged) == together
    assert engine.finish(fold, engine.merge(fold, merged, identity)) == together


@given(rows=logs, cut=st.integers(0, 30))
@settings(max_examples=12, deadline=None)
def test_small_sketches_are_exact(engine, rows, cut):
    fold = bound(View(reads=clicks, keys=["page"], measures=SKETCHES))
    parts = [engine.partial(fold, part, start) for start, part in cut_into(rows, [cut])]
    found = engine.finish(fold, engine.partial(fold, []), *parts)
    for (page,), values in found.items():
        users = {row["user"] for row in rows if row["page"] == page} - {None}
        numbers = sorted(row["ms"] for row in rows if row["page"] == page and row["ms"] is not None)
        assert (values["visitors"] or 0) == len(users)
        assert values["kll_median"] == (
            numbers[max(1, math.ceil(len(numbers) / 2)) - 1] if numbers else None
        )


def test_large_sketches_keep_their_error(engine):
    fold = bound(View(reads=clicks, measures=SKETCHES))
    rows = [
        {"user": f"user-{n % 7000}", "page": "/", "ms": n % 1000, "at": START}
        for n in range(14_000)
    ]
    whole = engine.finish(fold, engine.partial(fold, rows))[()]
    halves = engine.finish(
        fold, engine.partial(fold, rows[:5000]), engine.partial(fold, rows[5000:])
    )[()]
    for values in (whole, halves):
        assert abs(values["visitors"] - 7000) < 3 * 0.02 * 7000
        assert abs(values["kll_median"] - 500) < 0.017 * 2 * 1000


def test_a_row_lies_in_every_sliding_window_that_covers_it(engine):
    fold = bound(
        View(
            reads=clicks,
            keys=[window("3 minutes", every="1 minute")],
            measures={"n": EXACT["rows"]},
        )
    )
    rows = [{"user": "ada", "page": "/", "ms": 1, "at": START + timedelta(minutes=10, seconds=5)}]
    found = engine.finish(fold, engine.partial(fold, rows))
    starts = sorted(start for (start,) in found)
    assert starts == [START + timedelta(minutes=minute) for minute in (8, 9, 10)]
    assert all(
        row["window_end"] - row["window_start"] == timedelta(minutes=3) for row in found.values()
    )
