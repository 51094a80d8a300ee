"""Never publish less than was read: files that are missing, or hold fewer rows, are recognised."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strom.pipelines import Stream, View, count
from strom.pipelines.layers.batch import ArchiveTooShort
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.spark import writing
from strom.pipelines.spark.writing import FolderNotShared
from tests.pipelines.world import World, fresh_topic


@pytest.fixture
def world(spark, kafka_servers, tmp_path):
    stream = Stream(fresh_topic("lines"), format="string")
    views = [
        View(reads=stream, keys=["value"], measures={"n": count()}, name="counted"),
        View(reads=stream, name="lines"),
        View(reads=stream, where="false", name="nothing"),
    ]
    made = World(spark, kafka_servers, tmp_path / "data", stream, views)
    yield made
    made.close()


@pytest.fixture
def no_files(monkeypatch):
    """Files stay on the disk of the worker that wrote them."""
    seen = writing.files_in

    def gone(folder):
        for path in folder.glob("*.parquet"):
            path.unlink()
        return seen(folder)

    def forget():
        monkeypatch.setattr(writing, "files_in", gone)

    return forget


def served(world):
    counted = world.query("SELECT sum(n) AS n FROM counted")[0]["n"]
    return counted and int(counted), world.query("SELECT count(*) AS n FROM lines")[0]["n"]


def positions(world):
    versions = [world.manifests.existing(name).active_version for name in world.targets]
    return world.master.position(), [version.position for version in versions]


def test_what_the_driver_does_not_see_is_not_published(world, no_files):
    world.send([b"a", b"b", b"a"])
    assert world.speed().step() == 3
    world.archive()
    world.batch("counted")
    before = positions(world), served(world)
    no_files()
    world.send([b"c"])
    for work in (
        world.archive,
        lambda: world.batch("counted"),
        lambda: world.batch("lines"),
        lambda: world.replay(world.targets["counted"].feed.view),
    ):
        with pytest.raises(FolderNotShared, match=r"wrote \d+ rows .* sees 0 rows in 0 files"):
            work()
    assert (positions(world), served(world)) == before
    world.targets.pop("counted")  # its states are written by the driver itself
    speed = world.speed()
    speed.step()
    assert "wrote 1 rows" in speed.states.retry_reason("lines", world.targets["lines"].number)
    assert served(world) == (3, 3)


def test_a_file_that_holds_less_is_recognised(world, monkeypatch):
    world.send([b"a", b"b", b"c"])
    seen = writing.files_in

    def shorter(folder):
        path = next(one for one, rows in seen(folder).items() if rows)
        pq.write_table(pq.read_table(path).slice(1), path)
        return seen(folder)

    monkeypatch.setattr(writing, "files_in", shorter)
    with pytest.raises(FolderNotShared, match=r"wrote 3 rows .* sees 2 rows"):
        world.archive()
    assert world.master.position() - world.master.base() == 0
    assert not list(world.master.path.glob("records-*"))


def test_a_batch_of_an_archive_that_lacks_records_is_not_published(world):
    world.send([b"a", b"b"])
    world.archive()
    world.batch("counted")
    world.send([b"a", b"b"])
    world.archive()
    [*_, (file, records)] = sorted(world.master.snapshot().files.items(), key=lambda one: one[1])
    pq.write_table(pq.read_table(file).slice(1), file)
    with pytest.raises(ArchiveTooShort, match=f"noted {records} records in .* {records - 1} are"):
        world.batch("counted")
    Path(file).write_bytes(Path(file).read_bytes()[:-1])
    with pytest.raises(ArchiveTooShort, match=f"noted {records} records in .* 0 are"):
        world.batch("counted")
    assert served(world)[0] == 2


def test_an_archive_of_positions_without_files_is_not_published(world):
    world.send([b"a", b"b"])
    world.speed().step()
    # What strom 0.1.0 did where the workers did not share the data folder.
    world.master.add({}, world.kafka.ends(world.stream.topic), 0)
    with pytest.raises(ArchiveTooShort, match="lists no file"):
        world.batch("counted")
    assert served(world)[0] == 2


def test_an_archive_of_no_records_whose_files_were_compacted_is_accepted(world, monkeypatch):
    """As of a topic with nothing but aborted transactions."""
    monkeypatch.setattr("strom.pipelines.layers.master.SMALL_FILES", 2)
    path, master = world.master.path, world.master
    schema = pa.schema(master._table().schema().to_arrow())
    for number in range(2):
        pq.write_table(schema.empty_table(), path / f"{number}.parquet")
        master.add({path / f"{number}.parquet": 0}, TopicOffsets((number + 1,)), 0)
    assert master.compact()
    assert not master.files()
    assert world.batch("lines").records == 2


def test_views_of_no_rows_are_published(world):
    world.send([b"a", None])
    world.speed().step()
    world.archive()
    assert world.batch("nothing").records == 2
    assert world.query("SELECT count(*) AS n FROM nothing")[0]["n"] == 0


def test_a_micro_batch_of_a_view_without_measures_is_one_file(world, monkeypatch):
    layer = world.speed()
    for _ in range(3):
        world.send([b"a", b"b", b"c"])
        layer.step()
    segments = world.manifests.existing("lines").active_version.segments
    assert [len(segment.files) for segment in segments] == [1, 1, 1]
    monkeypatch.setattr("strom.pipelines.layers.compiled_views.RECORDS_PER_FILE", 2)
    world.send([b"a", b"b", b"c"])
    layer.step()
    large = world.manifests.existing("lines").active_version.segments[-1]
    assert len(large.files) == 2
    assert served(world) == (12, 12)
