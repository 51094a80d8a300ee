"""Replays of a live stream: they converge, switch without going back in time, and resume after a crash."""

import pytest

from strom.pipelines import Stream, View, count, window
from tests.pipelines.oracle import SCHEMA
from tests.pipelines.shop import clicks
from tests.pipelines.world import World, fresh_topic

ROUNDS = 12
PER_ROUND = 1_200


@pytest.fixture
def world(spark, kafka_servers, tmp_path):
    stream = Stream(fresh_topic(), schema=SCHEMA, time="at")
    world = World(spark, kafka_servers, tmp_path, stream, [make_view(stream)])
    yield world
    world.close()


def make_view(stream, **options):
    return View(
        reads=stream,
        keys=[window("1 minute"), "page"],
        measures={"views": count()},
        name="pages",
        **options,
    )


def counted(world):
    (row,) = world.query("SELECT sum(views) AS n FROM pages")
    return int(row["n"] or 0)


def test_a_replay_switches_though_the_active_version_advances_in_every_round(world, monkeypatch):
    world.send(clicks(3_000))
    speed = world.speed()
    speed.step()
    from strom.pipelines import replay

    append, rounds = replay.append_segment, []

    def advance_then_append(*arguments):
        assert len(rounds) < ROUNDS, "the replay chases the active version for ever"
        rounds.append(speed.step())
        world.send(clicks(PER_ROUND))
        return append(*arguments)

    monkeypatch.setattr(replay, "append_segment", advance_then_append)
    number = world.replay(make_view(world.stream, where="page IS NOT NULL"))
    assert world.manifests.existing("pages").active == number == 2
