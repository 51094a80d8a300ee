"""Runs a project in threads: speed layers, archive, batch and upkeep."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.model.retries import RetryPolicy
from strom.pipelines.failures import classify, plain_reason
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers.batch_layer import IDLE_S, BatchLayer
from strom.pipelines.layers.building import is_being_built
from strom.pipelines.layers.compaction import Compactor
from strom.pipelines.layers.compiled_views import compile_view
from strom.pipelines.layers.speed import SpeedLayer, SpeedTarget
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.outages import BACKOFF, Outage
from strom.pipelines.plan import Mode
from strom.pipelines.preparation import ProjectPreparation, prepare_topics
from strom.pipelines.project import Project
from strom.pipelines.set_aside import clear_reason
from strom.pipelines.views.continuation import continuation
from strom.pipelines.views.fingerprints import adopt, is_made_by
from strom.pipelines.views.manifests import ChainConflict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

UPKEEP_S = 1.0
SWEEP_EVERY = 30
COMPACTIONS_PER_ROUND = 4
_BATCH = "batch"


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
        self.outages: dict[str, Outage] = {}
        """By thread: failures that are being retried."""
        self.failed: BaseException | None = None
        self.compactions: Counter[str] = Counter()
        """The number of compactions per view in this run."""
        # One for all: each has a cache, which knows of its own changes at once.
        self._manifests = project.manifests
        self._preparation = ProjectPreparation(project, spark, kafka, self._manifests)
        masters = self._preparation.masters
        self.batches = BatchLayer(project, spark, kafka, self._manifests, masters, self.layers)
        """The batch layer, which runs in mode `lambda` only."""
        self._spark = spark
        self._kafka = kafka
        self._backoff = backoff
        self._compactor = Compactor(self._manifests)
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
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
                self._preparation.make_master(stream)
            self.layers[stream.topic] = self._preparation.make_layer(stream, feeds.values())

    def start(self) -> None:
        for topic, layer in self.layers.items():
            self._start_thread(f"speed-{topic}", lambda layer=layer: self._speed(layer))  # type: ignore[misc]
        if self.mode == "lambda":
            self._start_thread("archive", lambda: self._stopping.wait(self.batches.archive_round()))
            self._start_thread(_BATCH, self._batch)
        self._start_thread("upkeep", self._upkeep)

    def stop(self) -> None:
        """Stop all threads after their current step."""
        self.stop_within(threading.TIMEOUT_MAX)

    def stop_within(self, seconds: float) -> bool:
        """The same, but False if a step takes longer; call it again, or abandon the threads."""
        self._stopping.set()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, min(deadline - time.monotonic(), threading.TIMEOUT_MAX)))
        if any(thread.is_alive() for thread in self._threads):
            return False
        self._compactor.close()
        return True

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

    def _speed(self, layer: SpeedLayer) -> None:
        began = time.monotonic()
        layer.targets = [self._follow_switch(layer, one) for one in layer.existing_targets]
        letters = layer.dead_letters
        if letters and layer.is_dropped(letters):
            layer.dead_letters = self._preparation.create_dead_letters(letters.feed)
        taken = 0
        with layer.ignoring_dropped_views():
            taken = layer.step()
        rest = self.project.settings.trigger_s - (time.monotonic() - began)
        self._stopping.wait(max(rest, 0 if taken else IDLE_S))

    def _with_active_version(self, target: SpeedTarget) -> SpeedTarget:
        """The target with the active version, which another process may have switched."""
        manifest = self._manifests.existing(target.feed.name)
        if manifest.active in {None, target.number}:
            return target
        active = manifest.active_version
        assert active is not None  # noqa: S101 - just checked
        return self._preparation.by_stored_definition(target.feed.name, active)

    def _follow_switch(self, layer: SpeedLayer, target: SpeedTarget) -> SpeedTarget:
        """The target with the active version; if its definition is unusable, set it aside instead."""
        try:
            return self._with_active_version(target)
        except UserError as reason:
            manifest = self._manifests.read(target.feed.name)
            if manifest is not None and manifest.active is not None:
                layer.states.set_aside(target.feed.name, manifest.active, str(reason))
            return target

    def _batch(self) -> None:
        pause = 0.0 if _BATCH in self.outages else self.project.settings.batch_every_s
        if not self._stopping.wait(pause):
            self.batches.batch_round()

    def _upkeep(self) -> None:
        if self._stopping.wait(UPKEEP_S):
            return
        self._upkeep_rounds += 1
        for layer in self.layers.values():
            for target in layer.all_targets:
                with layer.ignoring_dropped_views():
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

    def _start_thread(self, name: str, work: Callable[[], object]) -> None:
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
                    delay = outage.on_failure(plain_reason(error))
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
