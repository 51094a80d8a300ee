"""A project at work: all layers at once, readers meanwhile, and versions that are switched under it."""

import shutil
import threading

import pytest
from confluent_kafka import Producer, TopicPartition

from strom.model.errors import UserError
from strom.pipelines import Project, count, window
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.definitions.view import View
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers.archiving import Archiver
from strom.pipelines.layers.master import MasterDataset
from strom.pipelines.layers.replay import replay
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.runner import ProjectRunner, check_definitions
from strom.pipelines.settings import ProjectSettings
from strom.pipelines.views.versions import rolled_back
from tests.pipelines.oracle import SCHEMA
from tests.pipelines.running import RunningProject, eventually
from tests.pipelines.shop import clicks
from tests.pipelines.world import fresh_topic, send


class Shop(RunningProject):
    """A project on a topic of its own, with a runner and a server."""

    def __init__(self, spark, servers, folder, mode):
        self.stream = Stream(fresh_topic(), schema=SCHEMA, time="at")
        self.view = View(
            reads=self.stream,
            keys=[window("1 minute"), "page"],
            measures={"views": count()},
            name="pages",
        )
        settings = ProjectSettings(
            name="shop", servers=servers, archive_every_s=0.5, batch_every_s=1.0
        )
        self.project = Project(folder, settings, {}, {"pages": self.view})
        self.kafka = KafkaLog(servers)
        self.kafka.create(self.stream.topic, 3)
        self.spark = spark
        self.runner = ProjectRunner(self.project, spark, self.kafka, mode)

    def send(self, rows):
        send(self.kafka.servers, self.stream, rows)

    def counted(self, column="views"):
        rows = self.server.query(f"SELECT sum({column}) AS n FROM pages").to_pylist()
        return int(rows[0]["n"] or 0)


def test_readers_see_every_record_once_while_everything_works(spark, kafka_servers, tmp_path):
    with Shop(spark, kafka_servers, tmp_path, "lambda") as shop:
        seen, stop = [], threading.Event()

        def read():
            while not stop.is_set():
                seen.append(shop.counted())

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for round_ in range(6):
                shop.send(clicks(30, first=30 * round_))
                assert eventually(lambda n=30 * (round_ + 1): shop.counted() == n, shop.runner)
            layers = lambda: [  # noqa: E731
                one.layer
                for one in shop.project.manifests.existing("pages").active_version.segments
            ]
            assert eventually(lambda: "batch" in layers(), shop.runner)
        finally:
            stop.set()
            reader.join()
        assert seen == sorted(seen), "a record that was counted once is never missing again"
        assert set(seen) <= set(range(181))
        assert shop.counted() == 180


def test_a_running_project_follows_a_switch_and_a_rollback(spark, kafka_servers, tmp_path):
    with Shop(spark, kafka_servers, tmp_path, "kappa") as shop:
        shop.send(clicks(30))
        assert eventually(lambda: shop.counted() == 30, shop.runner)
        changed = View(
            reads=shop.stream,
            keys=[window("1 minute"), "page"],
            measures={"clicks": count()},
            name="pages",
        )
        with pytest.raises(UserError, match="strom replay pages"):
            check_definitions(Project(tmp_path, shop.project.settings, {}, {"pages": changed}))
        manifests = shop.project.manifests
        number = replay(
            spark,
            shop.kafka,
            manifests,
            changed,
            tmp_path,
            start=TopicOffsets(),
            group="strom.other",
        )
        assert number == 2
        shop.send(clicks(30))
        assert eventually(lambda: shop.counted("clicks") == 60, shop.runner)
        manifests.change("pages", shop.stream.topic, rolled_back)
        assert eventually(lambda: shop.counted("views") == 60, shop.runner)
        assert not (tmp_path / "data" / "master").exists()


@pytest.mark.soak
def test_a_replay_overtakes_a_stream_that_never_pauses(spark, kafka_servers, tmp_path):
    with Shop(spark, kafka_servers, tmp_path, "kappa") as shop:
        sent, seen, stop = [], [], threading.Event()
        click = b'{"page": "/", "at": "2026-01-01T00:00:00Z"}'

        def produce():
            producer = Producer({"bootstrap.servers": kafka_servers, "log_level": 0})
            while not stop.wait(0.02):
                for number in range(120):
                    producer.produce(shop.stream.topic, click, partition=number % 3)
                assert producer.flush(20) == 0
                sent.append(120)

        def read():
            while not stop.wait(0.05):
                seen.append(shop.counted())

        threads = [threading.Thread(target=work) for work in (produce, read)]
        for thread in threads:
            thread.start()
        try:
            assert eventually(lambda: shop.counted() > 2_000, shop.runner)
            changed = View(**{**shop.view.__dict__, "where": "page IS NOT NULL"})
            number = replay(
                spark,
                shop.kafka,
                shop.project.manifests,
                changed,
                tmp_path,
                start=TopicOffsets(),
                group="strom.other",
            )
            before = sum(sent)
            assert eventually(lambda: shop.counted() > before, shop.runner)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert shop.project.manifests.existing("pages").active == number == 2
        assert eventually(lambda: shop.counted() == sum(sent), shop.runner)
        assert seen == sorted(seen), "queries never go back in time"


class Died(BaseException):
    """In place of a real death."""


def test_a_first_batch_that_a_run_has_not_finished_is_repeated(
    spark, kafka_servers, tmp_path, monkeypatch
):
    def die(*arguments, **named):
        raise Died

    shop = Shop(spark, kafka_servers, tmp_path, "lambda")
    shop.send(clicks(30))
    master = MasterDataset(shop.project.data / "master", shop.stream.topic)
    master.create(shop.kafka.starts(shop.stream.topic))
    Archiver(spark, shop.kafka, "strom.test").archive(master)
    with monkeypatch.context() as patch:
        patch.setattr("strom.pipelines.preparation.run_batch", die)
        with pytest.raises(Died):
            shop.runner.prepare()
    # From now on the archive alone holds them.
    first = [TopicPartition(shop.stream.topic, partition, 10) for partition in range(3)]
    for future in shop.kafka.admin.delete_records(first).values():
        future.result(10)
    shop.runner = ProjectRunner(shop.project, spark, shop.kafka, "lambda")
    with shop:
        shop.send(clicks(30))
        assert eventually(lambda: shop.counted() == 60, shop.runner)


def test_a_view_older_than_the_archive_goes_on_without_batches(spark, kafka_servers, tmp_path):
    with Shop(spark, kafka_servers, tmp_path, "kappa") as shop:
        shop.send(clicks(30))
        assert eventually(lambda: shop.counted() == 30, shop.runner)
        shop.runner.stop()
        first = TopicPartition(shop.stream.topic, 0, 5)
        shop.kafka.admin.delete_records([first])[first].result(10)
        shop.runner = ProjectRunner(shop.project, spark, shop.kafka, "lambda")
        shop.runner.prepare()
        shop.runner.start()
        assert eventually(lambda: shop.runner.batches.without_batch == {"pages"}, shop.runner)
        shop.send(clicks(30))
        assert eventually(lambda: shop.counted() == 60, shop.runner)


def test_a_new_view_that_fails_on_archived_records_is_set_aside_and_others_go_on(
    spark, kafka_servers, tmp_path
):
    with Shop(spark, kafka_servers, tmp_path, "lambda") as shop:
        shop.send(clicks(30))
        (master,) = shop.runner.batches.masters.values()
        assert eventually(lambda: master.position() - TopicOffsets() == 30, shop.runner)
        shop.runner.stop()
        shop.project.views["strict"] = View(
            reads=shop.stream,
            measures={"n": count()},
            expect_or_fail={"never": "page = 'nowhere'"},
            name="strict",
        )
        shop.runner = ProjectRunner(shop.project, spark, shop.kafka, "lambda")
        shop.runner.prepare()
        shop.runner.start()
        assert eventually(lambda: "strict" in shop.runner.set_aside(), shop.runner)
        shop.send(clicks(30))
        assert eventually(lambda: shop.counted() == 60, shop.runner)


def test_a_view_that_is_dropped_stops_nothing(spark, kafka_servers, tmp_path):
    with Shop(spark, kafka_servers, tmp_path, "kappa") as shop:
        shop.send(clicks(30))
        assert eventually(lambda: shop.counted() == 30, shop.runner)
        shutil.rmtree(shop.project.manifests.view_folder("pages"))
        shop.send(clicks(30))
        (layer,) = shop.runner.layers.values()
        assert eventually(lambda: layer.progress.records >= 60, shop.runner)
        assert layer.targets == []
        assert shop.project.manifests.read("pages") is None


def test_dead_letters_are_maintained_and_may_be_dropped(
    spark, kafka_servers, tmp_path, monkeypatch
):
    monkeypatch.setattr("strom.pipelines.layers.compaction.plan.__defaults__", (2,))
    monkeypatch.setattr("strom.pipelines.runner.UPKEEP_S", 0.05)
    with Shop(spark, kafka_servers, tmp_path, "kappa") as shop:
        manifests, name = shop.project.manifests, shop.stream.dead_letter_view

        def letters():
            if manifests.read(name) is None:
                return 0
            (row,) = shop.server.query(f"SELECT count(*) AS n FROM {name}").to_pylist()
            return row["n"]

        def levels():
            return [one.level for one in manifests.existing(name).active_version.segments]

        for count_ in (1, 2):
            shop.send([b"not json"])
            assert eventually(lambda n=count_: letters() == n, shop.runner)
        assert eventually(lambda: 1 in levels(), shop.runner), "compacted"
        (layer,) = shop.runner.layers.values()
        layer.states.set_aside(name, 1, "its files are damaged")
        manifests.drop(name)
        assert eventually(lambda: letters() == 2, shop.runner), "a new version, from the log"
        shop.send([*clicks(3), b"not json"])
        assert eventually(lambda: (letters(), shop.counted()) == (3, 3), shop.runner)


def test_a_topic_that_is_not_there_is_reported_before_anything_runs(spark, kafka_servers, tmp_path):
    stream = Stream("no-such-topic", schema=SCHEMA, time="at")
    view = View(reads=stream, measures={"n": count()}, name="n")
    project = Project(tmp_path, ProjectSettings(servers=kafka_servers), {}, {"n": view})
    with pytest.raises(UserError, match=r"test_runner\.py:\d+: Topic no-such-topic does not exist"):
        ProjectRunner(project, spark, KafkaLog(kafka_servers)).prepare()


def failing(rows):
    return rows / 0


def returning_nothing(rows):
    pass


def test_what_only_spark_can_see_is_reported_with_its_place(spark, kafka_servers, tmp_path):
    stream = Stream("clicks", schema=SCHEMA, time="at")
    for view in (
        View(reads=stream, where="nothing > 5", measures={"n": count()}, name="n"),
        View(
            reads=stream,
            prepare=lambda rows: rows.select("page"),
            keys=["user"],
            measures={"n": count()},
        ),
        View(
            reads=stream,
            prepare=lambda rows: rows.drop("at"),
            keys=[window("1 day")],
            measures={"n": count()},
        ),
        View(reads=stream, prepare=failing, measures={"n": count()}),
        View(reads=stream, prepare=returning_nothing, measures={"n": count()}),
        View(reads=stream, expect_or_drop={"good": "nothing > 5"}, measures={"n": count()}),
    ):
        project = Project(tmp_path, ProjectSettings(servers=kafka_servers), {}, {"n": view})
        with pytest.raises(UserError, match=r"test_runner\.py:\d+: ") as caught:
            ProjectRunner(project, spark, KafkaLog(kafka_servers)).prepare()
        assert "java" not in str(caught.value).lower()
        assert len(str(caught.value)) < 400
