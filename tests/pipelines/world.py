"""A topic, a folder for views, and the layers over them, for tests."""

import itertools
import json
from datetime import UTC, datetime

from confluent_kafka import Producer

from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers.archiving import Archiver
from strom.pipelines.layers.batch import run_batch
from strom.pipelines.layers.compaction import Compactor
from strom.pipelines.layers.compiled_views import compile_view, dead_letter_feed
from strom.pipelines.layers.master import MasterDataset
from strom.pipelines.layers.replay import begin_version, replay
from strom.pipelines.layers.speed import SpeedLayer, SpeedTarget
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.views.manifests import Manifests

BEGINNING = TopicOffsets()
_numbers = itertools.count()


def fresh_topic(name="clicks"):
    return f"{name}-{next(_numbers)}"


class World:
    """Everything that a project would have for one stream, stepped by hand."""

    def __init__(self, spark, servers, folder, stream, views):
        self.spark, self.folder, self.stream = spark, folder, stream
        self.kafka = KafkaLog(servers)
        self.kafka.create(stream.topic, stream.partitions)
        self.kafka.create(stream.dead_letter_topic, 1)
        self.manifests = Manifests(folder / "views")
        self.master = MasterDataset(folder / "master", stream.topic)
        self.master.create(TopicOffsets((0,) * stream.partitions))
        self.targets = {view.name: self.begin(view) for view in views}
        self.dead = self._target(dead_letter_feed(stream))
        self.server = QueryEngine(self.manifests)
        self.compactor = Compactor(self.manifests)

    def begin(self, view):
        return self._target(compile_view(self.spark, view, self.folder))

    def _target(self, feed):
        """The version that is there already, as after a crash, or a new one."""
        manifest = self.manifests.read(feed.name)
        if manifest is None:
            return SpeedTarget(
                feed, begin_version(self.spark, self.manifests, feed, TopicOffsets()).number
            )
        return SpeedTarget(feed, manifest.active)

    def send(self, rows):
        send(self.kafka.servers, self.stream, rows)

    def speed(self, **options):
        layer = SpeedLayer(
            self.spark,
            self.kafka,
            self.manifests,
            self.stream,
            group="strom.test",
            dead_letters=self.dead,
            **options,
        )
        layer.targets = list(self.targets.values())
        return layer

    def archive(self, **options):
        return Archiver(self.spark, self.kafka, "strom.test").archive(self.master, **options)

    def batch(self, name, **options):
        target = self.targets[name]
        return run_batch(
            self.spark,
            self.manifests,
            self.master,
            target.feed,
            target.number,
            self.kafka,
            **options,
        )

    def replay(self, view, start=BEGINNING, **options):
        return replay(
            self.spark,
            self.kafka,
            self.manifests,
            view,
            self.folder,
            start=start,
            group="strom.test",
            **options,
        )

    def query(self, sql):
        return self.server.query(sql).to_pylist()

    def close(self):
        self.server.close()
        self.compactor.close()
        self.kafka.close()


def send(servers, stream, rows):
    """Rows as JSON, or bytes as they are, in turn to all partitions."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for index, row in enumerate(rows):
        value = row if isinstance(row, bytes | None) else json.dumps(row, default=as_text).encode()
        producer.produce(stream.topic, value, partition=index % stream.partitions)
    assert producer.flush(10) == 0


def as_text(value):
    assert isinstance(value, datetime)
    return value.astimezone(UTC).isoformat()
