"""Runs a project in threads: speed layers, archive, batch and upkeep."""

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from strom.model.errors import StromError, UserError
from strom.model.retries import RetryPolicy
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.failures import classify, plain_reason
from strom.pipelines.kafka_log import KafkaLog, LogTruncated
from strom.pipelines.layers.batch import ArchiveTooShort, Published, run_batch
from strom.pipelines.layers.building import is_being_built
from strom.pipelines.layers.compaction import Compactor
from strom.pipelines.layers.compiled_views import CompiledView, compile_view, dead_letter_feed
from strom.pipelines.layers.master import MasterDataset
from strom.pipelines.layers.replay import begin_version, switch
from strom.pipelines.layers.speed import SpeedLayer, SpeedTarget
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.outages import BACKOFF, Outage
from strom.pipelines.plan import Mode
from strom.pipelines.project import Project
from strom.pipelines.set_aside import clear_reason
from strom.pipelines.spark.session import in_pool
from strom.pipelines.topic_identity import is_same, replay_hint
from strom.pipelines.topics import prepare_topics
from strom.pipelines.views.chain import ChainConflict, Version
from strom.pipelines.views.continuation import continuation
from strom.pipelines.views.fingerprints import adopt, is_made_by
from strom.pipelines.views.versions import definition_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

IDLE_S = 0.05
UPKEEP_S = 1.0
SWEEP_EVERY = 30
COMPACTIONS_PER_ROUND = 4
ARCHIVE_CHUNK = 200_000
"""Records that are archived at once, on one core. The archive then pauses for as long as that took, so
that it hardly affects the latency of views."""
ARCHIVE_MAX_DEFERRED = 6
"""The number of its intervals for which the archive defers to a lagging speed layer."""
_BATCH = "batch"
_VIEW_FAILURES = frozenset({"data", "definition"})
"""Failures that affect one view only."""


class ProjectRunner:
    """Runs the views of a project: call `prepare`, `start` and `stop`."""

    def __init__(
        self,
        project: Project,
        spark: "SparkSession",
        kafka: KafkaLog,
        mode: Mode = "lambda",
        *,
        backoff: RetryPolicy = BACKOFF,
    ) -> None:
        self.project = project
        self.mode = mode
        self.layers: dict[str, SpeedLayer] = {}
        """The speed layer of each topic."""
        self.masters: dict[str, MasterDataset] = {}
        self.without_batch: set[str] = set()
        """Views that only their speed layer feeds, such as one that is older than the archive."""
        self.without_archive: dict[str, str] = {}
        """Topics that are no longer archived, and why."""
        self.outages: dict[str, Outage] = {}
        """By thread: failures that are being retried."""
        self.failed: BaseException | None = None
        self.compactions: Counter[str] = Counter()
        """The number of compactions per view in this run."""
        self._spark = spark
        self._kafka = kafka
        self._backoff = backoff
        self._manifests = project.manifests
        self._compactor = Compactor(self._manifests)
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._archive_by = 0.0
        self._uncompacted: set[str] = set()
        self._upkeep_rounds = 0

    def prepare(self) -> None:
        """Compile views, and create topics and versions; UserError before anything runs."""
        feeds = {
            name: compile_view(self._spark, view, self.project.folder)
            for name, view in self.project.views.items()
        }
        prepare_topics(self.project, self._kafka)
        for name in feeds:
            clear_reason(self._manifests, name)
        for stream in self.project.read_streams:
            if self.mode == "lambda":
                self._prepare_master(stream)
            layer = self._layer(stream)
            clear_reason(self._manifests, stream.dead_letter_view)
            layer.targets = [
                self._target(feed)
                for feed in feeds.values()
                if feed.view.stream.topic == stream.topic
            ]
            self._check_logs(layer.targets)
            self.layers[stream.topic] = layer

    def start(self) -> None:
        for topic, layer in self.layers.items():
            self._start_thread(f"speed-{topic}", lambda layer=layer: self._speed(layer))  # type: ignore[misc]
        if self.mode == "lambda":
            self._start_thread("archive", self._archive)
            self._start_thread(_BATCH, self._batch)
        self._start_thread("upkeep", self._upkeep)

    def stop(self) -> None:
        """Stop all threads after their current step."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._compactor.close()

    def wait(self, seconds: float) -> bool:
        """Wait; True if a fatal failure has stopped the run, see `failed`."""
        return self._stopping.wait(seconds)

    def set_aside(self) -> dict[str, str]:
        """The views whose active version is set aside, and why."""
        found = {}
        for layer in self.layers.values():
            for (view, number), reason in list(layer.states.reasons.items()):
                manifest = self._manifests.read(view)
                if manifest is not None and manifest.active == number:
                    found[view] = reason
        return found

    def retrying(self) -> dict[str, datetime]:
        """The reasons of current outages, and since when; threads may share a reason."""
        found: dict[str, datetime] = {}
        for outage in list(self.outages.values()):
            if outage.reason is not None and outage.since is not None:
                found[outage.reason] = min(outage.since, found.get(outage.reason, outage.since))
        return found

    def waiting(self) -> dict[str, str]:
        """The views that wait for a retry, and why."""
        return {
            target.feed.name: reason
            for layer in self.layers.values()
            for target in layer.all_targets
            if (reason := layer.states.retry_reason(target.feed.name, target.number))
        }

    def ends(self, topic: str) -> int:
        """The number of records that a topic has had so far."""
        return self._kafka.ends(topic) - TopicOffsets()

    def batch_now(self, topic: str) -> int:
        """Archive a topic and publish a batch of each of its views; returns the number of records."""
        master = self.masters[topic]
        end = self._kafka.ends(topic)  # later records are not waited for
        with in_pool(self._spark, "batch"):
            while not end <= master.position() and self._archive_chunk(master):
                pass
            published = [self._batch_of(master, target) for target in self.layers[topic].targets]
        return max((one.records for one in published), default=0)

    def _prepare_master(self, stream: Stream) -> None:
        master = MasterDataset(self.project.data / "master", stream.topic)
        incarnation = self._kafka.incarnation(stream.topic)
        master.create(self._kafka.starts(stream.topic), incarnation)
        master.check_same_topic(self._kafka)
        master.sweep()
        self.masters[stream.topic] = master

    def _target(self, feed: CompiledView) -> SpeedTarget:
        """The active version, with the definition that it was created with."""
        manifest = self._manifests.read(feed.name)
        active = manifest.active_version if manifest else None
        if active is None:
            active = self._create_first_version(feed)
            target = SpeedTarget(feed, active.number)
        elif is_made_by(active, feed.view):
            target = SpeedTarget(feed, active.number)
        else:
            target = self._by_stored_definition(feed.name, active)
        self._run_first_batch(target, active)
        return target

    def _create_first_version(self, feed: CompiledView) -> Version:
        topic = feed.view.stream.topic
        master = self.masters.get(topic)
        base = master.base() if master else self._kafka.starts(topic)
        incarnation = self._kafka.incarnation(topic)
        return begin_version(self._spark, self._manifests, feed, base, incarnation)

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
                    self._spark, self._manifests, master, target.feed, version.number, self._kafka
                )
            except Exception as error:
                if classify(error) not in _VIEW_FAILURES:
                    raise
                # The speed layer starts at the same position, and processes the same records.
                reason = plain_reason(error)
                log.warning("view %s starts without a batch: %s", target.feed.name, reason)

    def _layer(self, stream: Stream) -> SpeedLayer:
        feed = dead_letter_feed(stream)
        manifest = self._manifests.read(feed.name)
        version = manifest.active_version if manifest else None
        if version is None or not self._can_resume(stream.topic, version):
            # It cannot be replayed, since no file defines it. The old version is kept.
            version = self._create_dead_letters(feed)
        return SpeedLayer(
            self._spark,
            self._kafka,
            self._manifests,
            stream,
            group=self._group(),
            max_records=self.project.settings.batch_records,
            dead_letters=SpeedTarget(feed, version.number),
        )

    def _can_resume(self, topic: str, version: Version) -> bool:
        seen = self._kafka.incarnation(topic)
        return is_same(version, seen) and self._kafka.holds(topic, version.position)

    def _create_dead_letters(self, feed: CompiledView) -> Version:
        topic = feed.view.stream.topic
        version = begin_version(
            self._spark,
            self._manifests,
            feed,
            self._kafka.starts(topic),
            self._kafka.incarnation(topic),
        )
        switch(self._manifests, feed, version.number)
        return version

    def _check_logs(self, targets: Sequence[SpeedTarget]) -> None:
        """Raise LogTruncated if views cannot resume at their position; one message names all of them."""
        truncated = []
        for target in targets:
            manifest = self._manifests.existing(target.feed.name)
            if not self._can_resume(manifest.topic, manifest.version(target.number)):
                truncated.append(target.feed)
        if truncated:
            names, view = [feed.name for feed in truncated], truncated[0].view
            raise LogTruncated(
                f"{view.place}: Topic {view.stream.topic} no longer has the records that "
                f"{', '.join(names)} must read next: they were deleted, or it was recreated. "
                f"{replay_hint(*names)}"
            )

    def _speed(self, layer: SpeedLayer) -> None:
        began = time.monotonic()
        layer.targets = [self._follow_switch(layer, one) for one in self._not_dropped(layer)]
        self._recreate_dead_letters(layer)
        taken = 0
        with self._ignoring_dropped_views(layer):
            taken = layer.step()
        rest = self.project.settings.trigger_s - (time.monotonic() - began)
        self._stopping.wait(max(rest, 0 if taken else IDLE_S))

    def _not_dropped(self, layer: SpeedLayer) -> list[SpeedTarget]:
        """The targets without those whose view another process has dropped."""
        return [one for one in layer.targets if not self._is_dropped(one)]

    def _is_dropped(self, target: SpeedTarget) -> bool:
        return self._manifests.read(target.feed.name) is None

    def _recreate_dead_letters(self, layer: SpeedLayer) -> None:
        """Create a new version if the view of dead letters was dropped, as at a start."""
        letters = layer.dead_letters
        if letters and self._is_dropped(letters):
            layer.dead_letters = SpeedTarget(
                letters.feed, self._create_dead_letters(letters.feed).number
            )

    @contextlib.contextmanager
    def _ignoring_dropped_views(self, layer: SpeedLayer) -> Iterator[None]:
        """Ignore an error if a view was dropped concurrently, which explains it."""
        try:
            yield
        except (StromError, OSError):
            if not any(map(self._is_dropped, layer.all_targets)):
                raise

    def _with_active_version(self, target: SpeedTarget) -> SpeedTarget:
        """The target with the active version, which another process may have switched."""
        manifest = self._manifests.existing(target.feed.name)
        if manifest.active in {None, target.number}:
            return target
        active = manifest.active_version
        assert active is not None  # noqa: S101 - just checked
        return self._by_stored_definition(target.feed.name, active)

    def _follow_switch(self, layer: SpeedLayer, target: SpeedTarget) -> SpeedTarget:
        """The target with the active version; if its definition is unusable, set it aside instead."""
        try:
            return self._with_active_version(target)
        except UserError as reason:
            manifest = self._manifests.read(target.feed.name)
            if manifest is not None and manifest.active is not None:
                layer.states.set_aside(target.feed.name, manifest.active, str(reason))
            return target

    def _by_stored_definition(self, name: str, version: Version) -> SpeedTarget:
        view = definition_of(self._manifests, name, version, to_compute=True)
        log.info("view %s continues with version %d", name, version.number)
        return SpeedTarget(compile_view(self._spark, view, self.project.folder), version.number)

    def _archive(self) -> None:
        if self._speed_is_behind() and time.monotonic() < self._archive_by:
            self._stopping.wait(IDLE_S)
            return
        began = time.monotonic()
        with in_pool(self._spark, "archive"):
            taken = [self._archive_unless_truncated(master) for master in self.masters.values()]
        now, every = time.monotonic(), self.project.settings.archive_every_s
        self._archive_by = now + ARCHIVE_MAX_DEFERRED * every
        self._stopping.wait(now - began if max(taken, default=0) >= ARCHIVE_CHUNK // 2 else every)

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
        return master.archive(
            self._spark,
            self._kafka,
            group=self._group(),
            max_records=ARCHIVE_CHUNK,
            on_one_core=True,
        )

    def _speed_is_behind(self) -> bool:
        """Whether a speed layer lags by more than a micro-batch, and needs the cores of the archive."""
        return any(
            layer.progress.lag > self.project.settings.batch_records
            for layer in self.layers.values()
        )

    def _batch(self) -> None:
        pause = 0.0 if _BATCH in self.outages else self.project.settings.batch_every_s
        if self._stopping.wait(pause):
            return
        failed: list[Exception] = []
        for topic, master in self.masters.items():
            layer = self.layers[topic]
            for target in self._not_dropped(layer):
                if (target.feed.name, target.number) in layer.states.reasons:
                    continue
                try:
                    with self._ignoring_dropped_views(layer), in_pool(self._spark, "batch"):
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
            if not isinstance(error, ArchiveTooShort) and classify(error) not in _VIEW_FAILURES:
                raise
            if target.feed.name not in self.without_batch:
                self.without_batch.add(target.feed.name)
                log.warning("%s The view continues without batches.", plain_reason(error))

    def _upkeep(self) -> None:
        if self._stopping.wait(UPKEEP_S):
            return
        self._upkeep_rounds += 1
        for layer in self.layers.values():
            for target in layer.all_targets:
                with self._ignoring_dropped_views(layer):
                    self._compact(target)
                    if self._upkeep_rounds % SWEEP_EVERY == 0:
                        self._manifests.sweep(target.feed.name)

    def _compact(self, target: SpeedTarget) -> None:
        """Compact segments; a long backlog continues in the next round, after all other views."""
        try:
            for _ in range(COMPACTIONS_PER_ROUND):
                if self._stopping.is_set():
                    return
                if not self._compactor.compact(target.feed.fold, target.number):
                    return
                self.compactions[target.feed.name] += 1
        except ChainConflict:
            log.debug("discarded a stale compaction of %s", target.feed.name)
        except Exception as error:
            # Compaction is optional: keep the segments, and compact other views.
            if classify(error) == "fatal":
                raise
            if target.feed.name not in self._uncompacted:
                self._uncompacted.add(target.feed.name)
                log.warning("view %s is not compacted: %s", target.feed.name, plain_reason(error))
        else:
            self._uncompacted.discard(target.feed.name)

    def _group(self) -> str:
        return f"strom.{self.project.settings.name}"

    def _start_thread(self, name: str, work: Callable[[], None]) -> None:
        outage = Outage(name, self._backoff)

        def run() -> None:
            while not self._stopping.is_set():
                try:
                    work()
                    outage.on_success()
                    self.outages.pop(name, None)
                except BaseException as error:  # noqa: BLE001 - reported as `failed`
                    if self._stopping.is_set():
                        return
                    # An error in data outside of views, such as a record that Spark cannot read,
                    # fails only its topic.
                    if classify(error) not in {"transient", "data"}:
                        self.failed = error
                        self._stopping.set()
                        return
                    delay = outage.on_failure(error)
                    self.outages[name] = outage
                    self._stopping.wait(delay)

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)


def check_definitions(project: Project) -> list[str]:
    """Raise UserError if a definition has changed since its view was computed.

    Returns notices about views with several versions.
    """
    manifests, notices = project.manifests, []
    for name, view in project.views.items():
        manifest = manifests.read(name)
        found = continuation(manifest, view, is_being_built=is_being_built(manifests, name))
        if found.refusal:
            raise UserError(found.refusal)
        if found.notice:
            notices.append(found.notice)
        active = manifest.active_version if manifest else None
        if active is not None and is_made_by(active, view):
            adopt(manifests, view, active)
    return notices
