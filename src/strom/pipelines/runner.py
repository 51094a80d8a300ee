"""Everything that a running project does, each in a thread: speed, archive, batch, upkeep."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from strom.model.backoff import Backoff
from strom.model.errors import StromError, UserError
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.failures import kind_of, plain_reason
from strom.pipelines.kafka_log import KafkaLog, LogTruncated
from strom.pipelines.layers.batch import ArchiveTooShort, Published, run_batch
from strom.pipelines.layers.building import is_being_built
from strom.pipelines.layers.compaction import Compactor
from strom.pipelines.layers.compiled_views import CompiledView, compile_view, dead_letter_feed
from strom.pipelines.layers.master import MasterDataset
from strom.pipelines.layers.replay import begin_version, switch
from strom.pipelines.layers.speed import SpeedLayer, SpeedTarget
from strom.pipelines.offsets import Offsets
from strom.pipelines.outages import BACKOFF, Outage
from strom.pipelines.plan import Mode
from strom.pipelines.project import Project
from strom.pipelines.set_aside import forget_reason
from strom.pipelines.spark.session import in_pool
from strom.pipelines.topic_identity import is_same, replay_again
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
ARCHIVE_BITE = 200_000
"""Records that the archive takes at once, on one core, and then rests for as long as that took: whoever
waits for fresh views hardly notices."""
ARCHIVE_WAITS = 6
"""For so many of its intervals the archive gives way to a speed layer that is behind."""
_BATCH = "batch"
_OF_THE_VIEW = frozenset({"data", "definition"})
"""Kinds of failures that other views do not have."""


class Runner:
    """A project at work. `start` it, look at `layers`, `stop` it."""

    def __init__(
        self,
        project: Project,
        spark: "SparkSession",
        kafka: KafkaLog,
        mode: Mode = "lambda",
        *,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self.project = project
        self.mode = mode
        self.layers: dict[str, SpeedLayer] = {}
        """The speed layer of each topic."""
        self.masters: dict[str, MasterDataset] = {}
        self.without_batch: set[str] = set()
        """Views that go on by their speed layer alone, as one that is older than the archive."""
        self.without_archive: dict[str, str] = {}
        """Topics of which nothing more is archived, and why."""
        self.outages: dict[str, Outage] = {}
        """By thread: what fails at present, and is retried."""
        self.failed: BaseException | None = None
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
        """Check and make everything that is needed; UserError before anything runs."""
        feeds = {
            name: compile_view(self._spark, view, self.project.folder)
            for name, view in self.project.views.items()
        }
        prepare_topics(self.project, self._kafka)
        for name in feeds:
            forget_reason(self._manifests, name)
        for stream in self.project.read_streams:
            if self.mode == "lambda":
                self._prepare_master(stream)
            layer = self._layer(stream)
            forget_reason(self._manifests, stream.dead_letter_view)
            layer.targets = [
                self._target(feed)
                for feed in feeds.values()
                if feed.view.stream.topic == stream.topic
            ]
            self._refuse_other_logs(layer.targets)
            self.layers[stream.topic] = layer

    def start(self) -> None:
        """Begin to work."""
        for topic, layer in self.layers.items():
            self._begin(f"speed-{topic}", lambda layer=layer: self._speed(layer))  # type: ignore[misc]
        if self.mode == "lambda":
            self._begin("archive", self._archive)
            self._begin(_BATCH, self._batch)
        self._begin("upkeep", self._upkeep)

    def stop(self) -> None:
        """End all work after its present step."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._compactor.close()

    def wait(self, seconds: float) -> bool:
        """Wait; True if something has failed that cannot be retried, and `failed` says what."""
        return self._stopping.wait(seconds)

    def set_aside(self) -> dict[str, str]:
        """The views whose active version gets no more records in this run, and why."""
        found = {}
        for layer in self.layers.values():
            for (view, number), reason in list(layer.states.reasons.items()):
                manifest = self._manifests.read(view)
                if manifest is not None and manifest.active == number:
                    found[view] = reason
        return found

    def retrying(self) -> dict[str, datetime]:
        """What fails at present and is retried, and since when; several threads may have one reason."""
        found: dict[str, datetime] = {}
        for outage in list(self.outages.values()):
            if outage.reason is not None and outage.since is not None:
                found[outage.reason] = min(outage.since, found.get(outage.reason, outage.since))
        return found

    def waiting(self) -> dict[str, str]:
        """The views that are retried, and why."""
        return {
            target.feed.name: reason
            for layer in self.layers.values()
            for target in layer.everyone
            if (reason := layer.states.reason_to_wait(target.feed.name, target.number))
        }

    def ends(self, topic: str) -> int:
        """How many records a topic has had until now."""
        return self._kafka.ends(topic) - Offsets()

    def batch_now(self, topic: str) -> int:
        """Archive what is there, and publish a batch of every view of a topic; records in it."""
        master = self.masters[topic]
        there = self._kafka.ends(topic)  # what comes meanwhile is not waited for
        with in_pool(self._spark, "batch"):
            while not there <= master.position() and self._archive_bite(master):
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
        """The version to feed: the active one, by the definition that it was made by."""
        manifest = self._manifests.read(feed.name)
        active = manifest.active_version if manifest else None
        if active is None:
            active = self._first_version(feed)
            target = SpeedTarget(feed, active.number)
        elif is_made_by(active, feed.view):
            target = SpeedTarget(feed, active.number)
        else:
            target = self._by_stored_definition(feed.name, active)
        self._first_batch(target, active)
        return target

    def _first_version(self, feed: CompiledView) -> Version:
        topic = feed.view.stream.topic
        master = self.masters.get(topic)
        base = master.base() if master else self._kafka.starts(topic)
        incarnation = self._kafka.incarnation(topic)
        return begin_version(self._spark, self._manifests, feed, base, incarnation)

    def _first_batch(self, target: SpeedTarget, version: Version) -> None:
        """Where records have been archived, an empty version begins with a batch of them.

        The log may no longer hold them, so what a run did not finish, the next one repeats.
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
                if kind_of(error) not in _OF_THE_VIEW:
                    raise
                # The speed layer begins where the batch would have, and comes to the same records.
                log.warning("%s begins without a batch: %s", target.feed.name, plain_reason(error))

    def _layer(self, stream: Stream) -> SpeedLayer:
        feed = dead_letter_feed(stream)
        manifest = self._manifests.read(feed.name)
        version = manifest.active_version if manifest else None
        if version is None or not self._can_go_on(stream.topic, version):
            # Nobody can replay it: no file defines it. What was found before stays as a version.
            version = self._new_dead_letters(feed)
        return SpeedLayer(
            self._spark,
            self._kafka,
            self._manifests,
            stream,
            group=self._group(),
            max_records=self.project.settings.batch_records,
            dead_letters=SpeedTarget(feed, version.number),
        )

    def _can_go_on(self, topic: str, version: Version) -> bool:
        seen = self._kafka.incarnation(topic)
        return is_same(version, seen) and self._kafka.holds(topic, version.position)

    def _new_dead_letters(self, feed: CompiledView) -> Version:
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

    def _refuse_other_logs(self, targets: Sequence[SpeedTarget]) -> None:
        """Raise LogTruncated if views cannot go on where they are; one message names all of them."""
        stuck = []
        for target in targets:
            manifest = self._manifests.existing(target.feed.name)
            if not self._can_go_on(manifest.topic, manifest.version(target.number)):
                stuck.append(target.feed)
        if stuck:
            names = [feed.name for feed in stuck]
            raise LogTruncated(
                f"{stuck[0].view.place}: Topic {stuck[0].view.stream.topic} is not the one that "
                f"{', '.join(names)} had read: records were deleted, or it was made anew. "
                f"{replay_again(*names)}"
            )

    def _speed(self, layer: SpeedLayer) -> None:
        began = time.monotonic()
        layer.targets = [self._followed_if_possible(layer, one) for one in self._not_dropped(layer)]
        self._renew_dead_letters(layer)
        taken = 0
        with self._unless_dropped(layer):
            taken = layer.step()
        rest = self.project.settings.trigger_s - (time.monotonic() - began)
        self._stopping.wait(max(rest, 0 if taken else IDLE_S))

    def _not_dropped(self, layer: SpeedLayer) -> list[SpeedTarget]:
        """The views that are still there: another process may have dropped one."""
        return [one for one in layer.targets if not self._is_dropped(one)]

    def _is_dropped(self, target: SpeedTarget) -> bool:
        return self._manifests.read(target.feed.name) is None

    def _renew_dead_letters(self, layer: SpeedLayer) -> None:
        """Begin a new version where the view of dead letters was dropped, as on a new start."""
        letters = layer.dead_letters
        if letters and self._is_dropped(letters):
            layer.dead_letters = SpeedTarget(
                letters.feed, self._new_dead_letters(letters.feed).number
            )

    @contextlib.contextmanager
    def _unless_dropped(self, layer: SpeedLayer) -> Iterator[None]:
        """Pass over an error if a view has gone meanwhile: then it is no wonder."""
        try:
            yield
        except (StromError, OSError):
            if not any(map(self._is_dropped, layer.everyone)):
                raise

    def _followed(self, target: SpeedTarget) -> SpeedTarget:
        """The version that is active now: another process may have switched it."""
        manifest = self._manifests.existing(target.feed.name)
        if manifest.active in {None, target.number}:
            return target
        active = manifest.active_version
        assert active is not None  # noqa: S101 - just checked
        return self._by_stored_definition(target.feed.name, active)

    def _followed_if_possible(self, layer: SpeedLayer, target: SpeedTarget) -> SpeedTarget:
        """The same as before if the definition of the active version, which is set aside, is unusable."""
        try:
            return self._followed(target)
        except UserError as reason:
            manifest = self._manifests.read(target.feed.name)
            if manifest is not None and manifest.active is not None:
                layer.states.set_aside(target.feed.name, manifest.active, str(reason))
            return target

    def _by_stored_definition(self, name: str, version: Version) -> SpeedTarget:
        view = definition_of(self._manifests, name, version, to_compute=True)
        log.info("view %s goes on with version %d", name, version.number)
        return SpeedTarget(compile_view(self._spark, view, self.project.folder), version.number)

    def _archive(self) -> None:
        if self._speed_is_behind() and time.monotonic() < self._archive_by:
            self._stopping.wait(IDLE_S)
            return
        began = time.monotonic()
        with in_pool(self._spark, "archive"):
            taken = [self._archive_if_possible(master) for master in self.masters.values()]
        now, every = time.monotonic(), self.project.settings.archive_every_s
        self._archive_by = now + ARCHIVE_WAITS * every
        self._stopping.wait(now - began if max(taken, default=0) >= ARCHIVE_BITE // 2 else every)

    def _archive_if_possible(self, master: MasterDataset) -> int:
        """Other topics are archived where one was truncated or recreated."""
        if master.topic in self.without_archive:
            return 0
        try:
            return self._archive_bite(master)
        except LogTruncated as reason:
            self.without_archive[master.topic] = str(reason)
            log.error("%s Until then, nothing more of it is archived.", reason)
            return 0

    def _archive_bite(self, master: MasterDataset) -> int:
        return master.archive(
            self._spark,
            self._kafka,
            group=self._group(),
            max_records=ARCHIVE_BITE,
            on_one_core=True,
        )

    def _speed_is_behind(self) -> bool:
        """Whether someone waits for records who would have to share the cores with the archive."""
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
                    with self._unless_dropped(layer), in_pool(self._spark, "batch"):
                        self._batch_if_possible(master, target)
                except Exception as error:
                    if kind_of(error) != "transient":
                        raise
                    failed.append(error)  # the batches of other views do not wait for it
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

    def _batch_if_possible(self, master: MasterDataset, target: SpeedTarget) -> None:
        """A view without batches lives on its speed layer alone, and stays right."""
        try:
            self._batch_of(master, target)
        except Exception as error:
            if not isinstance(error, ArchiveTooShort) and kind_of(error) not in _OF_THE_VIEW:
                raise
            if target.feed.name not in self.without_batch:
                self.without_batch.add(target.feed.name)
                log.warning("%s It goes on without batches.", plain_reason(error))

    def _upkeep(self) -> None:
        if self._stopping.wait(UPKEEP_S):
            return
        self._upkeep_rounds += 1
        for layer in self.layers.values():
            for target in layer.everyone:
                with self._unless_dropped(layer):
                    self._compact(target)
                    if self._upkeep_rounds % SWEEP_EVERY == 0:
                        self._manifests.sweep(target.feed.name)

    def _compact(self, target: SpeedTarget) -> None:
        """Merge segments; what is left of a long backlog waits for the next round, after all others."""
        try:
            for _ in range(COMPACTIONS_PER_ROUND):
                if self._stopping.is_set():
                    return
                if not self._compactor.compact(target.feed.fold, target.number):
                    return
        except ChainConflict:
            log.debug("discarded a stale compaction of %s", target.feed.name)
        except Exception as error:
            # It is upkeep: the segments stay as they are, and those of other views are merged.
            if kind_of(error) == "fatal":
                raise
            if target.feed.name not in self._uncompacted:
                self._uncompacted.add(target.feed.name)
                log.warning("%s is not compacted: %s", target.feed.name, plain_reason(error))
        else:
            self._uncompacted.discard(target.feed.name)

    def _group(self) -> str:
        return f"strom.{self.project.settings.name}"

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        outage = Outage(name, self._backoff)

        def run() -> None:
            while not self._stopping.is_set():
                try:
                    work()
                    outage.over()
                    self.outages.pop(name, None)
                except BaseException as error:  # noqa: BLE001 - reported by `failed`
                    if self._stopping.is_set():
                        return
                    # Data that no view can be blamed for, as a record that Spark cannot read, fails
                    # its topic only.
                    if kind_of(error) not in {"transient", "data"}:
                        self.failed = error
                        self._stopping.set()
                        return
                    delay = outage.failed(error)
                    self.outages[name] = outage
                    self._stopping.wait(delay)

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)


def refuse_changed(project: Project) -> list[str]:
    """Raise UserError if a definition is not the one that its view was computed by.

    Otherwise, what the user should know of views with several versions.
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


def lag_of(project: Project, kafka: KafkaLog) -> dict[str, int]:
    """How many records each view has not counted in yet."""
    ends: dict[str, Offsets] = {}
    lags = {}
    for name in project.manifests.names():
        manifest = project.manifests.existing(name)
        version = manifest.active_version
        if version is not None:
            ends.setdefault(manifest.topic, kafka.ends(manifest.topic))
            lags[name] = ends[manifest.topic] - version.position
    return lags
