"""kill -9 of the driver at the worst moments changes no result."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipelines import killed_driver
from tests.pipelines.killed_driver import ANYWHERE, AT_WORK, POINTS
from tests.pipelines.shop import answers, clicks, make_stream, make_views
from tests.pipelines.world import World, fresh_topic

ROOT = Path(__file__).resolve().parents[2]
KILLED = -9


class Died(BaseException):
    """In place of a real death, where a process of its own would take too long."""


@pytest.fixture
def world(spark, kafka_servers, tmp_path):
    stream = make_stream(fresh_topic())
    world = World(spark, kafka_servers, tmp_path, stream, make_views(stream))
    yield world
    world.close()


def work(world):
    """Everything that a project does, until there is nothing left to do."""
    killed_driver.work(world, world.speed(max_records=40))


def driver(world, folder, point):
    """The command of a process that works on the same world."""
    command = [sys.executable, "-m", "tests.pipelines.killed_driver"]
    return [*command, str(folder), world.kafka.servers, world.stream.topic, point]


def check_complete(world, sent):
    """All views and the archive hold every record, once."""
    served = answers(world)
    assert sum(row["views"] for row in served["page_minutes"]) == len(sent)
    assert len(served["slow"]) == sum((row["ms"] or 0) > 40 for row in sent)
    total = sum(row["ms"] or 0 for row in sent)
    assert sum(row["ms"] or 0 for row in served["page_minutes"]) == total
    for row in served["pages"]:
        users = {one["user"] for one in sent if one["page"] == row["page"]} - {None}
        assert row["users"] == sorted(users)
    archived = pq.ParquetDataset(world.master.files()).read(["partition", "offset"]).to_pylist()
    assert (
        len(archived) == len({(row["partition"], row["offset"]) for row in archived}) == len(sent)
    )


@pytest.mark.parametrize("point", POINTS)
def test_dying_at_any_point_changes_nothing(world, monkeypatch, point):
    sent = clicks(60)
    world.send(sent)
    owner, name, times = POINTS[point]
    original = getattr(owner, name)
    calls = []

    def deadly(*arguments, **named):
        calls.append(name)
        if len(calls) == times:
            raise Died
        return original(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, deadly)
        if "compaction" in point:
            patch.setattr("strom.pipelines.layers.compaction.plan.__defaults__", (2,))
        with pytest.raises(Died):
            work(world)
    work(world)
    check_complete(world, sent)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "after the sink",
        pytest.param("before the rename", marks=pytest.mark.soak),
        pytest.param("mid-archive", marks=pytest.mark.soak),
        pytest.param("before a batch is published", marks=pytest.mark.soak),
    ],
)
def test_a_killed_driver_changes_nothing(world, tmp_path, point):
    sent = clicks(60)
    world.send(sent)
    command = driver(world, tmp_path, point)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == KILLED, done.stderr[-2000:]
    work(world)
    check_complete(world, sent)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_drivers_killed_at_any_moment_change_nothing(world, tmp_path):
    chance = random.Random(2026)
    sent: list[dict[str, object]] = []
    for _ in range(4):
        with subprocess.Popen(
            driver(world, tmp_path, ANYWHERE), cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout.readline().strip() == AT_WORK
            for _ in range(chance.randint(2, 8)):
                rows = clicks(30, first=len(sent))
                world.send(rows)
                sent += rows
                time.sleep(chance.uniform(0.1, 1.5))
            process.kill()
    work(world)
    check_complete(world, sent)


@pytest.mark.slow
@pytest.mark.oracle
def test_a_driver_killed_at_work_on_kafka_changes_nothing(spark, tmp_path):
    from tools.kafka import RealKafka, UnavailableError, locate

    try:
        locate()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    stream = make_stream("clicks")
    with RealKafka() as kafka:
        world = World(spark, kafka.bootstrap_servers, tmp_path, stream, make_views(stream))
        try:
            test_a_killed_driver_changes_nothing(world, tmp_path, "mid-archive")
        finally:
            world.close()
