"""Prepares a project before it runs: topics, archives, and the version that each view continues with."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.failures import VIEW_FAILURES, classify, plain_reason
from strom.pipelines.kafka_log import KafkaLog, LogTruncated
from strom.pipelines.layers.archiving import check_same_topic
from strom.pipelines.layers.batch import run_batch
from strom.pipelines.layers.compiled_views import CompiledView, compile_view, dead_letter_feed
from strom.pipelines.layers.master import MasterDataset
from strom.pipelines.layers.replay import begin_version, switch
from strom.pipelines.layers.speed import SpeedLayer, SpeedTarget
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.project import Project
from strom.pipelines.set_aside import clear_reason
from strom.pipelines.topic_identity import is_same, replay_hint
from strom.pipelines.views.fingerprints import is_made_by
from strom.pipelines.views.manifests import Manifests, Version
from strom.pipelines.views.versions import definition_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProjectPreparation:
    """Creates the archives and speed layers of a project; UserError before anything runs."""

    project: Project
    spark: "SparkSession"
    kafka: KafkaLog
    manifests: Manifests
    masters: dict[str, MasterDataset] = field(default_factory=dict)
    """The archive of each topic; none without batches."""

    def make_master(self, stream: Stream) -> None:
        """Open the archive of a stream, or create it."""
        master = MasterDataset(self.project.data / "master", stream.topic)
        master.create(self.kafka.starts(stream.topic), self.kafka.incarnation(stream.topic))
        check_same_topic(self.kafka, master)
        master.sweep()
        self.masters[stream.topic] = master

    def make_layer(self, stream: Stream, feeds: Iterable[CompiledView]) -> SpeedLayer:
        """The speed layer of a stream, at the positions of its views."""
        dead_letters = self._dead_letters(dead_letter_feed(stream))
        layer = SpeedLayer(
            self.spark,
            self.kafka,
            self.manifests,
            stream,
            group=self.project.group,
            max_records=self.project.settings.batch_records,
            dead_letters=dead_letters,
        )
        clear_reason(self.manifests, stream.dead_letter_view)
        layer.targets = [
            self._target(feed) for feed in feeds if feed.view.stream.topic == stream.topic
        ]
        self._check_logs(layer.targets)
        return layer

    def _target(self, feed: CompiledView) -> SpeedTarget:
        """The active version, with the definition that it was created with."""
        manifest = self.manifests.read(feed.name)
        active = manifest.active_version if manifest else None
        if active is None:
            active = self._create_first_version(feed)
            target = SpeedTarget(feed, active.number)
        elif is_made_by(active, feed.view):
            target = SpeedTarget(feed, active.number)
        else:
            target = self.by_stored_definition(feed.name, active)
        self._run_first_batch(target, active)
        return target

    def _create_first_version(self, feed: CompiledView) -> Version:
        topic = feed.view.stream.topic
        master = self.masters.get(topic)
        return self._create_version(feed, master.base() if master else self.kafka.starts(topic))

    def _create_version(self, feed: CompiledView, base: TopicOffsets) -> Version:
        incarnation = self.kafka.incarnation(feed.view.stream.topic)
        return begin_version(self.spark, self.manifests, feed, base, incarnation)

    def _run_first_batch(self, target: SpeedTarget, version: Version) -> None:
        """Start an empty version with a batch of archived records.

        The log may no longer have them, so a run repeats what the previous one did not finish.
        """
        master = self.masters.get(target.feed.view.stream.topic)
        if version.segments or master is None or not is_same(version, master.incarnation()):
            return
        archived = master.position()
        if master.base() <= version.base <= archived and version.base != archived:
            try:
                run_batch(
                    self.spark, self.manifests, master, target.feed, version.number, self.kafka
                )
            except Exception as error:
                if classify(error) not in VIEW_FAILURES:
                    raise
                # The speed layer starts at the same position, and processes the same records.
                reason = plain_reason(error)
                log.warning("view %s starts without a batch: %s", target.feed.name, reason)

    def _dead_letters(self, feed: CompiledView) -> SpeedTarget:
        manifest = self.manifests.read(feed.name)
        version = manifest.active_version if manifest else None
        if version is None or not self._can_resume(feed.view.stream.topic, version):
            # It cannot be replayed, since no file defines it. The old version is kept.
            return self.create_dead_letters(feed)
        return SpeedTarget(feed, version.number)

    def _can_resume(self, topic: str, version: Version) -> bool:
        seen = self.kafka.incarnation(topic)
        return is_same(version, seen) and self.kafka.holds(topic, version.position)

    def create_dead_letters(self, feed: CompiledView) -> SpeedTarget:
        """A new active version of a stream's dead letters, from the first record on."""
        version = self._create_version(feed, self.kafka.starts(feed.view.stream.topic))
        switch(self.manifests, feed, version.number)
        return SpeedTarget(feed, version.number)

    def _check_logs(self, targets: Sequence[SpeedTarget]) -> None:
        """Raise LogTruncated if views cannot resume at their position; one message names all of them."""
        truncated = []
        for target in targets:
            manifest = self.manifests.existing(target.feed.name)
            if not self._can_resume(manifest.topic, manifest.version(target.number)):
                truncated.append(target.feed)
        if truncated:
            names, view = [feed.name for feed in truncated], truncated[0].view
            raise LogTruncated(
                f"{view.place}: Topic {view.stream.topic} no longer has the records that "
                f"{', '.join(names)} must read next: they were deleted, or it was recreated. "
                f"{replay_hint(*names)}"
            )

    def by_stored_definition(self, name: str, version: Version) -> SpeedTarget:
        """A version of a view, with the definition that it was created with."""
        view = definition_of(self.manifests, name, version, to_compute=True)
        log.info("view %s continues with version %d", name, version.number)
        return SpeedTarget(compile_view(self.spark, view, self.project.folder), version.number)


def prepare_topics(project: Project, kafka: KafkaLog) -> None:
    """Create missing topics; UserError if a stream's topic is missing in an external Kafka cluster.

    A producer would auto-create a missing topic with the broker's defaults: another number of partitions
    than the stream's, and without the retention that a replay needs. So call this first.
    """
    topics = kafka.topics()
    for stream in project.read_streams:
        if stream.topic not in topics:
            _create_topic(project, kafka, stream)
        if stream.dead_letter_topic not in topics:
            kafka.create(stream.dead_letter_topic, 1)


def _create_topic(project: Project, kafka: KafkaLog, stream: Stream) -> None:
    if project.settings.servers:
        raise UserError(
            f"{stream.place}: Topic {stream.topic} does not exist at {kafka.servers}. "
            "Create it, or correct the stream."
        )
    kafka.create(stream.topic, stream.partitions)
