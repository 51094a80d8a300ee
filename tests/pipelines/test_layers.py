"""Batch, speed and replay over a real topic, with one definition."""

import errno
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from strom.model.errors import UserError
from strom.pipelines import Stream, View, window
from strom.pipelines.layers.batch import _pin
from strom.pipelines.layers.skipping import SegmentWriter
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.spark.parsing import parse
from strom.pipelines.spark.reading import read_log
from strom.pipelines.spark.session import in_pool, java_options
from strom.pipelines.views.manifests import ChainConflict
from tests.pipelines.oracle import EXACT, SCHEMA, SKETCHES, START, agrees, expected
from tests.pipelines.world import World, as_text, fresh_topic


def clicks(count, first=0):
    return [
        {
            "user": f"user-{number % 7}" if number % 11 else None,
            "page": f"/{number % 3}",
            "ms": number % 50 if number % 5 else None,
            # Every tenth click is late by more than any window.
            "at": START + timedelta(seconds=number % 300 - (3600 if number % 10 == 0 else 0)),
        }
        for number in range(first, first + count)
    ]


@pytest.fixture
def world(spark, kafka_servers, tmp_path):
    stream = Stream(fresh_topic(), schema=SCHEMA, time="at")
    view = View(
        reads=stream,
        keys=[window("1 minute"), "page"],
        measures={**EXACT, **SKETCHES},
        name="page_minutes",
    )
    world = World(spark, kafka_servers, tmp_path, stream, [view])
    yield world
    world.close()


def answer(world, name="page_minutes"):
    rows = world.query(f"SELECT * FROM {name}")
    return {(row["window_start"], row["page"]): row for row in rows}


def check(world, sent):
    found = answer(world)
    key = lambda row: (row["at"].replace(second=0, microsecond=0), row["page"])  # noqa: E731
    wanted = expected(sent, key)
    assert set(found) == set(wanted)
    for group, values in wanted.items():
        for name, value in values.items():
            # Offsets are per partition, so ties in time are decided otherwise than in one log.
            if name not in {"first_ms", "last_user"}:
                assert agrees(name, found[group][name], value), (group, name)


def test_the_archive_takes_bites_of_one_file_and_misses_nothing(world):
    sent = clicks(300)
    world.send(sent)
    bites = []
    while taken := world.archive(max_records=120, on_one_core=True):
        bites.append(taken)
    assert len(bites) > 1
    assert sum(bites) == 300
    assert len(world.master.files()) == len(bites)
    world.speed().step()
    assert world.batch("page_minutes").records == 300
    check(world, sent)


def _no_room(*arguments, **named):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_small_files_of_the_archive_are_merged_and_stay_until_no_reader_needs_them(
    world, monkeypatch
):
    sent = clicks(300)
    world.send(sent)
    while world.archive(max_records=120, on_one_core=True):
        pass
    small, position = world.master.files(), world.master.position()
    assert not world.master.compact()  # they are too few
    monkeypatch.setattr("strom.pipelines.layers.master.SMALL_FILES", len(small))
    with monkeypatch.context() as full_disk:
        full_disk.setattr("deltalake.table.TableOptimizer.compact", _no_room)
        assert not world.master.compact()
    assert world.master.files() == small
    assert world.master.compact()
    assert len(world.master.files()) == 1
    assert world.master.position() == position
    assert pq.ParquetDataset(small).read().num_rows == 300
    more = clicks(50, first=300)
    world.send(more)
    assert world.archive() == 50
    world.speed().step()
    assert world.batch("page_minutes").records == 350
    check(world, sent + more)
    monkeypatch.setattr("strom.pipelines.layers.master.SMALL_FILES", 2)
    monkeypatch.setattr("strom.pipelines.layers.master.READERS_HOURS", 0)
    assert world.master.compact()
    assert not any(Path(file).exists() for file in small)
    assert world.batch("page_minutes").records == 350
    check(world, sent + more)


@pytest.mark.parametrize("beside_speed", [True, False])
def test_a_batch_whose_end_the_speed_layer_passes_meanwhile_is_right(
    world, monkeypatch, beside_speed
):
    sent = clicks(300)
    world.send(sent[:200])
    speed = world.speed()
    speed.step()
    world.send(sent[200:280])
    world.archive()  # further than the view
    passed: list[int] = []
    write = SegmentWriter.write

    def passing(writer, piece):
        if not passed:  # in one step from 200 to 300: there is no boundary at 280
            world.send(sent[280:])
            passed.append(speed.step())
        return write(writer, piece)

    monkeypatch.setattr(SegmentWriter, "write", passing)
    published = world.batch("page_minutes", beside_speed=beside_speed)
    assert passed == [100]
    assert published.records == 200
    check(world, sent)


def test_a_compaction_leaves_a_batch_that_began_meanwhile_its_end(world, monkeypatch):
    monkeypatch.setattr("strom.pipelines.layers.compaction.plan.__defaults__", (2,))
    sent = clicks(60)
    speed = world.speed()
    world.send(sent[:30])
    world.archive()
    speed.step()
    world.send(sent[30:])
    speed.step()
    target = world.targets["page_minutes"]
    merge = world.compactor._merge

    def merging(*arguments):
        cut = _pin(world.manifests, world.master, target.feed, target.number, may_lead=False)
        assert cut - TopicOffsets() == 30
        return merge(*arguments)

    monkeypatch.setattr(world.compactor, "_merge", merging)
    with pytest.raises(ChainConflict, match="a batch has begun"):
        world.compactor.compact(target.feed.fold, target.number)
    assert world.batch("page_minutes", beside_speed=True).records == 30
    check(world, sent)


def test_a_pool_is_left_even_after_an_error(spark):
    pool = "spark.scheduler.pool"

    def fail():
        with in_pool(spark, "aside"):
            raise UserError(spark.sparkContext.getLocalProperty(pool))

    with pytest.raises(UserError, match="aside"):
        fail()
    assert spark.sparkContext.getLocalProperty(pool) is None


def test_java_gets_as_much_memory_as_the_driver_at_once():
    assert "-Xms512m" in java_options("512m").split()


def test_batch_speed_and_replay_agree(world, monkeypatch):
    sent = clicks(300)
    world.send(sent)
    speed = world.speed()
    assert speed.step() == 300
    check(world, sent)

    assert world.archive() == 300
    more = clicks(90, first=300)
    world.send(more)
    speed.step()
    published = world.batch("page_minutes")
    assert published.records == 300
    check(world, sent + more)
    by_lambda = answer(world)
    layers = [
        segment.layer for segment in world.manifests.read("page_minutes").active_version.segments
    ]
    assert layers == ["batch", "speed"]

    view = world.targets["page_minutes"].feed.view
    monkeypatch.setattr("strom.pipelines.layers.replay.PART", 30)
    number = world.replay(view, chunk=100)
    assert world.manifests.read("page_minutes").active == number == 2
    assert answer(world) == by_lambda


def test_compacted_segments_answer_the_same(world):
    speed = world.speed(max_records=20)
    world.send(clicks(200))
    while speed.step():
        pass
    before = answer(world)
    target = world.targets["page_minutes"]
    assert world.compactor.compact(target.feed.fold, target.number)
    assert len(world.manifests.read("page_minutes").active_version.segments) < 5
    assert answer(world) == before


def test_a_row_view_piles_up_no_files(spark, kafka_servers, tmp_path, monkeypatch):
    monkeypatch.setattr("strom.pipelines.layers.compaction.plan.__defaults__", (2,))
    stream = Stream(fresh_topic(), schema=SCHEMA, time="at")
    world = World(spark, kafka_servers, tmp_path, stream, [View(reads=stream, name="rows")])
    try:
        target, speed = world.targets["rows"], world.speed()
        for number in range(4):
            world.send(clicks(10, first=10 * number))
            assert speed.step() == 10
            while world.compactor.compact(target.feed.fold, target.number):
                pass
        world.manifests.sweep("rows", grace_s=0)
        (merged,) = world.manifests.existing("rows").active_version.segments
        assert len(merged.files) == 1
        folder = world.manifests.view_folder("rows")
        left = [path for path in (folder / "v1" / "speed").rglob("*") if path.is_file()]
        assert [str(path.relative_to(folder)) for path in left] == list(merged.files)
        assert world.query("SELECT count(*) AS n FROM rows") == [{"n": 40}]
    finally:
        world.close()


def test_malformed_records_go_to_the_dead_letters_and_stop_nothing(world):
    good = clicks(30)
    bad = [
        b"not json",
        b'{"at": 5',
        None,
        b'{"user": "ada"}',
        b'{"ms": "many", "at": "2026-01-01T00:00:00Z"}',
    ]
    world.send([*good[:10], *bad, *good[10:]])
    speed = world.speed()
    speed.step()
    assert speed.progress.dead_letters == len(bad)
    check(world, good)
    name = world.dead.feed.name
    rows = world.query(f"SELECT value, reason FROM {name}")
    assert sorted(filter(None, (row["value"] for row in rows))) == sorted(filter(None, bad))
    assert world.kafka.ends(world.stream.dead_letter_topic).next == (len(bad),)


def test_the_group_of_a_view_shows_its_progress(world):
    from confluent_kafka import Consumer, TopicPartition

    world.send(clicks(30))
    world.speed().step()
    consumer = Consumer(
        {"bootstrap.servers": world.kafka.servers, "group.id": "strom.test.page_minutes"}
    )
    partitions = [TopicPartition(world.stream.topic, number) for number in range(3)]
    world.kafka.close()  # which waits for the commit
    assert [one.offset for one in consumer.committed(partitions, timeout=10)] == [10, 10, 10]
    consumer.close()


def test_two_archivers_at_once_archive_every_record_once(world):
    world.send(clicks(40))
    with ThreadPoolExecutor(2) as pool:
        taken = [one.result() for one in [pool.submit(world.archive) for _ in range(2)]]
    assert sorted(taken) == [0, 40]
    assert pq.ParquetDataset(world.master.files()).read().num_rows == 40


def test_a_log_that_was_truncated_under_a_view_is_reported_with_the_way_out(world):
    from confluent_kafka import TopicPartition

    world.send(clicks(60))
    world.kafka.admin.delete_records([TopicPartition(world.stream.topic, 1, 15)])
    assert eventually(lambda: world.kafka.starts(world.stream.topic)[1] == 15)
    speed = world.speed()
    assert speed.step() == 0
    reason = speed.states.reasons["page_minutes", 1]
    assert "strom replay page_minutes" in reason
    assert "partition 1" in reason
    assert world.query("SELECT * FROM page_minutes") == []


def test_a_topic_that_was_recreated_under_a_view_is_reported_with_the_way_out(world):
    world.send(clicks(60))
    speed = world.speed()
    speed.step()
    before = answer(world)
    world.kafka.admin.delete_topics([world.stream.topic])[world.stream.topic].result(10)
    assert eventually(lambda: world.stream.topic not in world.kafka.topics())
    world.kafka.create(world.stream.topic, world.stream.partitions)
    world.send(clicks(3))
    assert speed.step() == 0
    assert re.search(
        "recreated.*strom replay page_minutes", speed.states.reasons["page_minutes", 1]
    )
    assert answer(world) == before


def test_a_new_partition_is_read_from_its_beginning(world):
    from confluent_kafka import Producer
    from confluent_kafka.admin import NewPartitions

    world.send(clicks(30))
    speed = world.speed()
    speed.step()
    changed = world.kafka.admin.create_partitions([NewPartitions(world.stream.topic, 4)])
    changed[world.stream.topic].result(10)
    assert eventually(lambda: world.kafka.topics()[world.stream.topic] == 4)
    producer = Producer({"bootstrap.servers": world.kafka.servers, "log_level": 0})
    click = b'{"at": "2026-01-01T00:00:00Z", "page": "/3"}'
    producer.produce(world.stream.topic, click, partition=3)
    assert producer.flush(10) == 0
    speed.step()
    (counted,) = world.query("SELECT sum(rows) AS n FROM page_minutes")
    assert counted["n"] == 31


def test_what_a_transaction_took_back_is_in_no_view(world):
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": world.kafka.servers,
            "transactional.id": world.stream.topic,
            "log_level": 0,
        }
    )
    producer.init_transactions(20)
    rows = clicks(40)
    for part, finish in (
        (rows[:30], producer.commit_transaction),
        (rows[30:], producer.abort_transaction),
    ):
        producer.begin_transaction()
        for row in part:
            producer.produce(world.stream.topic, json.dumps(row, default=as_text), partition=0)
        finish(20)
    speed = world.speed()
    speed.step()
    check(world, rows[:30])
    # Markers have offsets too: nothing is left to read, and nothing is waited for.
    assert speed.step() == 0
    world.archive()
    world.batch("page_minutes")
    check(world, rows[:30])


def eventually(true):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


def test_a_micro_batch_is_folded_without_a_shuffle(world, capsys):
    end = TopicOffsets((1,) * world.stream.partitions)
    raw = read_log(world.spark, world.kafka, world.stream.topic, TopicOffsets(), end, "strom.test")
    parsed = parse(world.stream, raw).coalesce(1)
    world.targets["page_minutes"].feed.states(parsed).explain()
    plan = capsys.readouterr().out
    assert "Aggregate" in plan
    assert "Exchange" not in plan
