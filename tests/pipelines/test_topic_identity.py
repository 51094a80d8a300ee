"""A topic that was deleted and recreated is detected at any length, and the message has a remedy."""

import re
from dataclasses import replace

import pytest

from strom.pipelines import Project
from strom.pipelines.definitions.view import View
from strom.pipelines.kafka_log import LogTruncated
from strom.pipelines.measures import count
from strom.pipelines.runner import ProjectRunner
from strom.pipelines.settings import ProjectSettings
from tests.pipelines.shop import answers, clicks, make_stream, make_views
from tests.pipelines.test_layers import eventually
from tests.pipelines.world import World, fresh_topic, send


@pytest.fixture
def world(spark, kafka_servers, tmp_path):
    stream = make_stream(fresh_topic())
    world = World(spark, kafka_servers, tmp_path / "data", stream, make_views(stream))
    yield world
    world.close()


def made_anew(world, partitions=None):
    topic = world.stream.topic
    world.kafka.admin.delete_topics([topic])[topic].result(10)
    assert eventually(lambda: topic not in world.kafka.topics())
    world.kafka.create(topic, partitions or world.stream.partitions)


def runner_of(world, tmp_path):
    views = {name: target.feed.view for name, target in world.targets.items()}
    project = Project(tmp_path, ProjectSettings(servers=world.kafka.servers), {}, views)
    return ProjectRunner(project, world.spark, world.kafka)


def test_a_topic_that_has_grown_past_its_forerunner_is_reported_with_the_way_out(world, tmp_path):
    world.send([*clicks(30), b"malformed"])
    speed = world.speed()
    speed.step()
    world.archive()
    before = answers(world)
    made_anew(world)
    world.send(clicks(90))
    assert speed.step() == 0
    for target in world.targets.values():
        reason = speed.states.reasons[target.feed.name, target.number]
        assert re.search(r"recreated.*strom replay", reason)
    assert answers(world) == before
    with pytest.raises(LogTruncated, match=r"recreated.*Move the folder"):
        world.archive()
    with pytest.raises(LogTruncated, match=r"recreated.*Move the folder"):
        runner_of(world, tmp_path).prepare()
    world.master.path.rename(tmp_path / "old")
    with pytest.raises(LogTruncated) as caught:
        runner_of(world, tmp_path).prepare()
    for name, target in world.targets.items():
        assert f"strom replay {name}" in str(caught.value)
        world.replay(target.feed.view)
    runner = runner_of(world, tmp_path)
    runner.prepare()
    (layer,) = runner.layers.values()
    layer.step()
    assert sum(row["views"] for row in answers(world)["page_minutes"]) == 90
    dead = f"{world.stream.topic}_dead_letters".replace("-", "_")
    assert world.query(f"SELECT * FROM {dead}") == [], "those were of the topic that is gone"
    assert runner.batches.batch_now(world.stream.topic) == 90


def test_a_topic_that_was_recreated_with_fewer_partitions_is_reported(world):
    world.send(clicks(30))
    speed = world.speed()
    speed.step()
    made_anew(world, partitions=1)
    send(world.kafka.servers, replace(world.stream, partitions=1), clicks(40))
    world.kafka.incarnation = lambda topic: 0  # as of a Kafka that gives no ids
    assert speed.step() == 0
    for target in world.targets.values():
        assert "partition 1" in speed.states.reasons[target.feed.name, target.number]


def test_a_version_that_does_not_know_its_topic_gets_to_know_it(world):
    world.begin(View(reads=world.stream, measures={"n": count()}, name="n"))
    speed = world.speed()
    for name in world.targets:
        version = world.manifests.existing(name).active_version
        assert version.incarnation == 0
    speed.step()
    seen = world.kafka.incarnation(world.stream.topic)
    assert seen
    for name in world.targets:
        version = world.manifests.existing(name).active_version
        assert version == replace(version, incarnation=seen)
