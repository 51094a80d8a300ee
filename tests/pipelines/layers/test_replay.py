"""Replays: they converge on a live stream, and what a killed one has left is resumed."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from strom.pipelines import Stream, View, count, window
from strom.pipelines.layers import handover, replay
from strom.pipelines.layers.batch import run_batch
from strom.pipelines.layers.compiled_views import append_segment, compile_view
from strom.pipelines.layers.speed import SpeedTarget
from strom.pipelines.views import manifests
from strom.pipelines.views.versions import rolled_back
from strom.supervision import durable_files
from tests.pipelines.oracle import SCHEMA
from tests.pipelines.shop import clicks
from tests.pipelines.world import World, fresh_topic

ROOT = Path(__file__).resolve().parents[3]
KILLED = -9
ROUNDS = 12


class Died(BaseException):
    """In place of a real death, where a process of its own would take too long."""


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


def changed(world, number=0):
    """A definition of its own for each number, and always the same result."""
    return make_view(world.stream, where=f"page IS NOT NULL OR ms = {number}")


def counted(world):
    rows = world.query("SELECT page, sum(views) AS n FROM pages GROUP BY page ORDER BY page")
    return {row["page"]: int(row["n"]) for row in rows}


def expected(sent):
    pages = [row["page"] for row in sent]
    return {page: pages.count(page) for page in sorted(set(pages))}


def states(world):
    manifest = world.manifests.existing("pages")
    return {version.number: manifest.state_of(version.number) for version in manifest.versions}


def test_a_replay_switches_though_the_active_version_advances_in_every_round(world, monkeypatch):
    sent = clicks(3_000)
    world.send(sent)
    speed, rounds = world.speed(), [0]
    speed.step()
    seen = [world.manifests.existing("pages").active_version.position]

    def append_and_advance(*arguments):
        assert len(rounds) < ROUNDS, "the replay chases the active version for ever"
        rounds.append(speed.step())
        seen.append(world.manifests.existing("pages").active_version.position)
        more = clicks(1_200, first=len(sent))
        world.send(more)
        sent.extend(more)
        return append_segment(*arguments)

    monkeypatch.setattr(replay, "append_segment", append_and_advance)
    number = world.replay(changed(world))
    manifest = world.manifests.existing("pages")
    assert manifest.active == number == 2
    seen.append(manifest.active_version.position)
    assert all(before <= after for before, after in pairwise(seen))
    # From here on the speed layer continues the new version, without a gap or a record twice.
    world.targets["pages"] = SpeedTarget(
        compile_view(world.spark, changed(world), world.folder), number
    )
    world.speed().step()
    assert counted(world) == expected(sent)


def test_a_replay_that_dies_at_every_step_is_resumed_and_changes_no_result(world, monkeypatch):
    """Each change of the manifest is killed twice: before its rename, then after it."""
    sent = clicks(90)
    world.send(sent)
    world.speed().step()
    sync, write = durable_files._sync, durable_files.write_atomically
    deaths: list[dict[int, str]] = []

    def dying(times):
        calls = []

        def sync_or_die(descriptor):
            calls.append(descriptor)
            if len(calls) == times:
                raise Died
            sync(descriptor)

        return sync_or_die

    def write_or_die(path, content):
        with monkeypatch.context() as patched:
            patched.setattr(durable_files, "_sync", dying(1 + len(deaths) % 2))
            write(path, content)

    monkeypatch.setattr(manifests, "write_atomically", write_or_die)
    while world.manifests.existing("pages").active == 1:
        with pytest.raises(Died):
            world.replay(changed(world), chunk=45)
        deaths.append(states(world))
        assert counted(world) == expected(sent)
        assert len(deaths) < ROUNDS
    steps = [{1: "active"}, {1: "active", 2: "building"}]
    # Created; two segments; switched.
    assert deaths == [steps[0], *steps[1:] * 6, {1: "ready", 2: "active"}]
    new = world.manifests.existing("pages").active_version
    assert [segment.records for segment in new.segments] == [45, 45]
    assert set(new.files) <= {
        str(path.relative_to(world.manifests.view_folder("pages")))
        for path in world.manifests.version_folder("pages", 2).rglob("*.parquet")
    }


def test_a_replay_that_dies_while_it_pauses_the_speed_layer_ends_the_pause(world, monkeypatch):
    sent = clicks(30)
    world.send(sent)
    speed = world.speed()
    speed.step()

    def die_if_paused(*arguments):
        if handover.is_paused(world.manifests, "pages"):
            raise Died
        world.send(more := clicks(30, first=len(sent)))
        sent.extend(more)
        assert speed.step() == 30
        return handover.switch_if_reached(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(replay, "switch_if_reached", die_if_paused)
        with pytest.raises(Died):
            world.replay(changed(world))
    world.send(more := clicks(30, first=len(sent)))
    sent.extend(more)
    assert speed.step() == 30
    assert counted(world) == expected(sent)
    assert world.replay(changed(world)) == 2
    assert counted(world) == expected(sent)
    assert states(world) == {1: "ready", 2: "active"}


def test_other_writers_of_the_new_version_do_not_disturb_a_replay(world, monkeypatch):
    sent = clicks(90)
    world.send(sent)
    world.speed().step()
    calls = []

    def beside_a_batch(manifests, feed, number, segment):
        calls.append(number)
        if len(calls) == 1:  # the archive takes the version further than this round goes
            world.archive()
            run_batch(world.spark, manifests, world.master, feed, number, world.kafka)
        return append_segment(manifests, feed, number, segment)

    def beside_compaction(manifests, feed, number, segment):
        version = append_segment(manifests, feed, number, segment)
        world.compactor.compact(feed.fold, number)
        return version

    with monkeypatch.context() as patch:
        patch.setattr(replay, "append_segment", beside_a_batch)
        assert world.replay(changed(world), chunk=40) == 2
    assert counted(world) == expected(sent)
    assert [one.layer for one in world.manifests.existing("pages").active_version.segments] == [
        "batch"
    ]
    monkeypatch.setattr(replay, "append_segment", beside_compaction)
    monkeypatch.setattr("strom.pipelines.layers.compaction.plan.__defaults__", (2,))
    assert world.replay(changed(world, 1), chunk=40) == 3
    assert counted(world) == expected(sent)
    assert len(world.manifests.existing("pages").active_version.segments) < 3


def test_a_version_that_is_not_switched_to_is_ready_for_it(world):
    world.send(clicks(30))
    assert world.replay(changed(world), keep_inactive=True) == 2
    assert states(world) == {1: "active", 2: "ready"}
    assert counted(world) == {}
    world.manifests.change("pages", world.stream.topic, lambda before: rolled_back(before, 2))
    assert counted(world) == expected(clicks(30))
    assert states(world) == {1: "ready", 2: "active"}


def test_a_view_that_was_never_computed_is_seen_when_its_replay_is_done(world, monkeypatch):
    view = make_view(world.stream)
    first = View(**{**view.__dict__, "name": "first"})
    world.send(clicks(30))
    with monkeypatch.context() as patch:
        patch.setattr(replay, "switch_if_reached", die)
        with pytest.raises(Died):
            world.replay(first)
    manifest = world.manifests.existing("first")
    assert (manifest.active, manifest.state_of(1)) == (None, "building")
    assert world.replay(first) == 1
    manifest = world.manifests.existing("first")
    assert (manifest.active, manifest.previous) == (1, None)


def die(*arguments):
    raise Died


@pytest.mark.soak
def test_a_replay_that_is_really_killed_is_resumed(world, tmp_path):
    sent = clicks(90)
    world.send(sent)
    world.speed().step()
    command = [sys.executable, "-m", "tests.pipelines.killed_replay"]
    arguments = [str(tmp_path), world.kafka.servers, world.stream.topic]
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == KILLED, done.stderr[-2000:]
    assert states(world) == {1: "active", 2: "building"}
    assert world.replay(changed(world), chunk=40) == 2
    assert counted(world) == expected(sent)
    assert states(world) == {1: "ready", 2: "active"}
