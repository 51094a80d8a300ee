"""Expectations: rows that are counted, left out, or end the work."""

import pytest
from pyspark.errors import PySparkException

from strom.cli.run import plain_error
from strom.pipelines import Stream, View, count
from strom.pipelines.project import quality_view
from strom.pipelines.set_aside import reason_set_aside
from tests.pipelines.oracle import SCHEMA
from tests.pipelines.shop import clicks
from tests.pipelines.world import World, fresh_topic


def test_rows_that_are_not_as_expected_are_counted_and_dropped(spark, kafka_servers, tmp_path):
    stream = Stream(fresh_topic(), schema=SCHEMA, time="at")
    pages = View(
        reads=stream,
        expect={"known_user": "user IS NOT NULL"},
        expect_or_drop={"timed": "ms >= 0"},
        keys=["page"],
        measures={"n": count()},
        name="pages",
    )
    world = World(spark, kafka_servers, tmp_path, stream, [pages, quality_view(pages)])
    try:
        sent = clicks(60)
        world.send(sent)
        world.speed().step()
        timed = sum(row["ms"] is not None for row in sent)
        named = sum(row["user"] is not None for row in sent)
        assert world.query("SELECT sum(n)::INT AS n FROM pages") == [{"n": timed}]
        assert world.query("SELECT * FROM pages_quality") == [
            {"rows": 60, "known_user": 60 - named, "timed": 60 - timed}
        ]
    finally:
        world.close()


def test_an_expectation_that_must_hold_sets_its_view_aside_with_the_place(
    spark, kafka_servers, tmp_path
):
    stream = Stream(fresh_topic(), schema=SCHEMA, time="at")
    strict = View(
        reads=stream, expect_or_fail={"short": "ms < 40"}, measures={"n": count()}, name="strict"
    )
    other = View(reads=stream, measures={"n": count()}, name="other")
    world = World(spark, kafka_servers, tmp_path, stream, [strict, other])
    try:
        world.send([{**row, "ms": 1} for row in clicks(6)])
        speed = world.speed()
        speed.step()
        world.send([{**clicks(1)[0], "ms": 50}])
        speed.step()
        message = speed.states.reasons["strict", 1]
        assert "Expectation short of view strict does not hold: ms < 40" in message
        assert "partition 0 offset 2" in message
        assert "Exception" not in message
        assert reason_set_aside(world.manifests, "strict") == message
        assert reason_set_aside(world.manifests, "other") is None
        assert world.query("SELECT n FROM strict") == [{"n": 6}]
        assert world.query("SELECT n FROM other") == [{"n": 7}]
        world.archive()
        with pytest.raises(PySparkException) as caught:
            world.batch("strict")
        assert str(plain_error(caught.value)) == message
    finally:
        world.close()
