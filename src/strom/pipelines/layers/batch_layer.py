"""Archives the topics of a project and runs batches of its views, beside the speed layers."""

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from strom.pipelines.failures import VIEW_FAILURES, classify, plain_reason
from strom.pipelines.kafka_log import KafkaLog, LogTruncated
from strom.pipelines.layers.archiving import Archiver
from strom.pipelines.layers.batch import ArchiveTooShort, Published, run_batch
from strom.pipelines.layers.master import MasterDataset
from strom.pipelines.layers.speed import SpeedLayer, SpeedTarget
from strom.pipelines.project import Project
from strom.pipelines.spark.session import in_pool
from strom.pipelines.views.manifests import Manifests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

IDLE_S = 0.05
ARCHIVE_CHUNK = 200_000
"""Records that are archived at once, on one core. The archive then pauses for as long as that took, so
that it hardly affects the latency of views."""
ARCHIVE_MAX_DEFERRED = 6
"""The number of its intervals for which the archive defers to a lagging speed layer."""


class BatchLayer:
    """The archives of a project and the batches of its views."""

    def __init__(
        self,
        project: Project,
        spark: "SparkSession",
        kafka: KafkaLog,
        manifests: Manifests,
        masters: Mapping[str, MasterDataset],
        layers: Mapping[str, SpeedLayer],
    ) -> None:
        self.masters = masters
        self.layers = layers
        self.without_batch: set[str] = set()
        """Views that only their speed layer feeds, such as one that is older than the archive."""
        self.without_archive: dict[str, str] = {}
        """Topics that are no longer archived, and why."""
        self._settings = project.settings
        self._archiver = Archiver(spark, kafka, project.group)
        self._spark = spark
        self._kafka = kafka
        self._manifests = manifests
        self._archive_by = 0.0

    def batch_now(self, topic: str) -> int:
        """Archive a topic and publish a batch of each of its views; returns the number of records."""
        master = self.masters[topic]
        end = self._kafka.ends(topic)  # later records are not waited for
        with in_pool(self._spark, "batch"):
            while not end <= master.position() and self._archive_chunk(master):
                pass
            published = [self._batch_of(master, target) for target in self.layers[topic].targets]
        return max((one.records for one in published), default=0)

    def archive_round(self) -> float:
        """Archive all topics, unless a speed layer needs the cores; returns the seconds to pause then."""
        if self._speed_is_behind() and time.monotonic() < self._archive_by:
            return IDLE_S
        began = time.monotonic()
        with in_pool(self._spark, "archive"):
            taken = [self._archive_unless_truncated(master) for master in self.masters.values()]
        now, every = time.monotonic(), self._settings.archive_every_s
        self._archive_by = now + ARCHIVE_MAX_DEFERRED * every
        return now - began if max(taken, default=0) >= ARCHIVE_CHUNK // 2 else every

    def _archive_unless_truncated(self, master: MasterDataset) -> int:
        """Archive a topic; if it was truncated or recreated, archive only the others from now on."""
        if master.topic in self.without_archive:
            return 0
        try:
            return self._archive_chunk(master)
        except LogTruncated as reason:
            self.without_archive[master.topic] = str(reason)
            log.error("%s Until then, it is not archived.", reason)
            return 0

    def _archive_chunk(self, master: MasterDataset) -> int:
        return self._archiver.archive(master, max_records=ARCHIVE_CHUNK, on_one_core=True)

    def _speed_is_behind(self) -> bool:
        """Whether a speed layer lags by more than a micro-batch, and needs the cores of the archive."""
        return any(
            layer.progress.lag > self._settings.batch_records for layer in self.layers.values()
        )

    def batch_round(self) -> None:
        """Run a batch of every view; raises the first transient failure, after all other batches."""
        failed: list[Exception] = []
        for topic, master in self.masters.items():
            layer = self.layers[topic]
            for target in layer.existing_targets:
                if (target.feed.name, target.number) in layer.states.reasons:
                    continue
                try:
                    with layer.ignoring_dropped_views(), in_pool(self._spark, "batch"):
                        self._batch_unless_failing(master, target)
                except Exception as error:
                    if classify(error) != "transient":
                        raise
                    failed.append(error)  # continue with the batches of other views
            master.compact()
        if failed:
            raise failed[0]

    def _batch_of(self, master: MasterDataset, target: SpeedTarget) -> Published:
        return run_batch(
            self._spark,
            self._manifests,
            master,
            target.feed,
            target.number,
            self._kafka,
            beside_speed=True,
        )

    def _batch_unless_failing(self, master: MasterDataset, target: SpeedTarget) -> None:
        """Run a batch; a view whose batch cannot succeed stays correct with its speed layer alone."""
        try:
            self._batch_of(master, target)
        except Exception as error:
            if not isinstance(error, ArchiveTooShort) and classify(error) not in VIEW_FAILURES:
                raise
            if target.feed.name not in self.without_batch:
                self.without_batch.add(target.feed.name)
                log.warning("%s The view continues without batches.", plain_reason(error))
