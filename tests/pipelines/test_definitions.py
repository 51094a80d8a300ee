"""Definitions: what they refuse, with the place in the user's file."""

from typing import Any

import pytest

from strom import pipelines as p
from strom.model.errors import UserError
from strom.model.settings import parse_duration
from strom.pipelines.definitions.types import parse_schema, spark_spelling

clicks = p.Stream("clicks", schema="user STRING, page STRING, ms INT, at TIMESTAMP", time="at")
COUNT = {"n": p.count()}
ROLLED = {"n": p.rollup("n")}
pages = p.View(reads=clicks, keys=["page"], measures=COUNT, name="pages")
minutes = p.View(reads=clicks, keys=[p.window("1 minute"), "page"], measures=COUNT)
sliding = p.View(reads=clicks, keys=[p.window("1 hour", every="5 minutes"), "page"], measures=COUNT)


def wrong(value) -> Any:
    """What no type checker would let through."""
    return value


def refused(make):
    with pytest.raises(UserError) as caught:
        make()
    text = str(caught.value)
    assert "test_definitions.py:" in text, "the message names file and line"
    return text


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: p.Stream("t"), "has no schema"),
        (lambda: p.Stream("t", schema="user STRING, ("), "is not a schema"),
        (lambda: p.Stream("t", schema="a INT, a INT"), "column a twice"),
        (lambda: p.Stream("t", schema="a INT", time="a"), "must be a TIMESTAMP; a is int"),
        (lambda: p.Stream("t", schema="a INT", time="b"), "b is not in its schema"),
        (lambda: p.Stream("t", schema="a INT", format=wrong("xml")), "Unknown format 'xml'"),
        (lambda: p.Stream("t", schema="a INT", format="raw"), "omit schema"),
        (lambda: p.Table("pages.csv"), "has no schema"),
        (lambda: p.window("a while"), "not a duration"),
        (lambda: p.window("1 hour", every="7 minutes"), "must divide"),
        (lambda: p.View(reads=wrong("clicks")), "must be a Stream or a View"),
        (lambda: p.View(reads=clicks, keys=["pag"], measures=COUNT), "Unknown column 'pag'"),
        (lambda: p.View(reads=clicks, measures={"x": p.sum("page")}), "page is string"),
        (lambda: p.View(reads=clicks, measures={"x": p.mean("mss")}), "Unknown column 'mss'"),
        (lambda: p.View(reads=clicks, keys=["page"]), "needs measures"),
        (lambda: p.View(reads=clicks, keys=["page"], measures={"page": p.count()}), "twice"),
        (lambda: p.View(reads=clicks, measures={"a__b": p.count()}), "Invalid column name"),
        (
            lambda: p.View(reads=clicks, measures={"x": wrong(5)}),
            "must be a measure, such as count()",
        ),
        (
            lambda: p.View(reads=pages, measures={"most": p.max("n")}),
            "compute it in a query over pages",
        ),
        (lambda: p.View(reads=pages), "needs measures, each a rollup()"),
        (
            lambda: p.View(reads=pages, measures={"n": p.rollup("m")}),
            "Unknown measure 'm' of pages",
        ),
        (lambda: p.View(reads=clicks, measures={"n": p.rollup("n")}), "rollup() needs"),
        (lambda: p.View(reads=pages, keys=["user"], measures=ROLLED), "Unknown column 'user'"),
        (lambda: p.View(reads=pages, keys=[p.window("1 day")], measures=ROLLED), "needs a window"),
        (
            lambda: p.View(reads=minutes, keys=[p.window("90 seconds")], measures=ROLLED),
            "multiples of theirs",
        ),
        (lambda: p.View(reads=sliding, keys=["page"], measures=ROLLED), "Keep 'window_start'"),
        (
            lambda: p.View(reads=sliding, keys=[p.window("1 day")], measures=ROLLED),
            "Keep 'window_start'",
        ),
        (lambda: p.View(reads=clicks, select=["pag"]), "Unknown column 'pag'"),
        (
            lambda: p.View(
                reads=clicks, keys=[p.window("1 day"), p.window("1 hour", name="h")], measures=COUNT
            ),
            "one window",
        ),
    ],
)
def test_a_wrong_definition_is_refused_with_its_place(make, told):
    assert told in refused(make)


@pytest.mark.parametrize(
    "make",
    [
        lambda: p.top_k("page", 0),
        lambda: p.distinct("user", error=2),
        lambda: p.quantile("ms", 50),
        lambda: p.quantile("ms", 0.5, error=0.9),
        lambda: p.measure(partial={"a": "sum(x)"}, merge={"b": "sum(b)"}, finish="a"),
        lambda: p.measure(partial={"a": "sum(x)"}, merge={"a": "sum(c)"}, finish="a"),
        lambda: p.measure(partial={"a": "sum(("}, merge={"a": "sum(a)"}, finish="a"),
    ],
)
def test_a_wrong_measure_is_refused(make):
    with pytest.raises(UserError):
        make()


def test_a_view_of_a_view_prepares_in_order():
    good = p.View(reads=clicks, where="page IS NOT NULL", name="good")
    slow = p.View(reads=good, where="ms > 100", name="slow")
    assert [step.name for step in slow.steps] == ["good", "slow"]
    assert slow.stream is clicks


def test_a_rollup_measures_what_it_rolls_up():
    days = p.View(reads=minutes, keys=[p.window("1 day")], measures={"all": p.rollup("n")})
    ever = p.View(reads=days, measures={"sum": p.rollup("all")})
    assert ever.folded == {"sum": p.count()}
    assert ever.stream is clicks
    assert days.time == "window_start"
    assert [one.name for one in p.View(reads=sliding, keys=["window_start"], measures=ROLLED).steps]


def test_definitions_are_values():
    one, two = (p.View(reads=clicks, keys=["page"], measures={"n": p.count()}) for _ in range(2))
    assert one == two
    with pytest.raises(AttributeError):
        one.where = "false"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("LONG", "bigint"),
        ("DECIMAL(10, 2)", "decimal(10,2)"),
        ("ARRAY<STRING>", "array<string>"),
        ("STRUCT<a: INT>", "struct<a:int>"),
    ],
)
def test_types_are_spelled_as_spark_does(written, spelled):
    assert spark_spelling(written) == spelled
    assert parse_schema(f"x {written}") == {"x": spelled}


def test_durations():
    assert parse_duration("5 minutes") == 300_000_000
    assert parse_duration("1 hour") == 3_600_000_000
