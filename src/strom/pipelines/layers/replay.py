"""Replay (Kappa): folds the log again from a position into a new version, then switches to it."""

import logging
import math
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.definitions.view import View
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers.building import resumed, sole_builder
from strom.pipelines.layers.compiled_views import CompiledView, append_segment, compile_view
from strom.pipelines.layers.handover import Pace, ReplayRound, hand_over, paused, switch_if_reached
from strom.pipelines.layers.skipping import Piece, SegmentWriter
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.spark.parsing import parse
from strom.pipelines.spark.reading import cores_of, read_log
from strom.pipelines.topic_identity import check_same_topic, replay_hint
from strom.pipelines.views.manifests import (
    ChainConflict,
    Manifest,
    Manifests,
    Version,
    VersionState,
    ViewSegment,
)
from strom.pipelines.views.versions import new_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

CHUNK = 5_000_000
"""Records per step: the maximum that is read again after a crash."""
PART = 500_000
"""Records per job."""


@dataclass(frozen=True)
class ReplayProgress:
    """The progress of a replay."""

    version: int
    done: int
    total: int
    seconds: float
    outpaced: ReplayRound | None = None
    """A round during which more records arrived than it has read."""


def replay(
    spark: "SparkSession",
    kafka: KafkaLog,
    manifests: Manifests,
    view: View,
    folder: Path,
    *,
    start: TopicOffsets,
    group: str,
    chunk: int = CHUNK,
    report: Callable[[ReplayProgress], None] = lambda step: None,
    keep_inactive: bool = False,
) -> int:
    """Compute a new version from `start`, and switch to it when it has caught up; returns its number.

    An unfinished replay of the same definition from the same start is resumed.
    """
    name, topic = view.name, view.stream.topic
    with sole_builder(manifests, name):
        feed = compile_view(spark, view, folder)
        version = resumed(kafka, manifests, view, start) or begin_version(
            spark, manifests, feed, start, kafka.incarnation(topic), state="building"
        )
        number = version.number
        log_fold = LogFold(
            spark, kafka, manifests, feed, number, f"{group}.v{number}", chunk, report
        )
        if keep_inactive:
            log_fold.catch_up()
            manifests.change(name, topic, lambda manifest: manifest.with_ready(number))
        else:
            hand_over(
                log_fold.round,
                lambda: switch_if_reached(kafka, manifests, name, number),
                lambda: paused(manifests, name),
                log_fold.report_outpaced,
            )
        manifests.sweep(name)
    return number


def begin_version(
    spark: "SparkSession",
    manifests: Manifests,
    feed: CompiledView,
    base: TopicOffsets,
    incarnation: int = 0,
    *,
    state: VersionState = "ready",
) -> Version:
    """Create an empty version that starts at a position of a topic, which may not exist yet."""
    identity = feed.identity(spark).toArrow()
    return new_version(
        manifests, feed.view, base, identity, feed.columns, incarnation=incarnation, state=state
    )


@dataclass
class LogFold:
    """Folds the log into one version, round by round."""

    spark: "SparkSession"
    kafka: KafkaLog
    manifests: Manifests
    feed: CompiledView
    number: int
    group: str
    chunk: int
    report: Callable[[ReplayProgress], None]
    began: float = field(default_factory=time.perf_counter)

    def catch_up(self) -> None:
        """Fold rounds until another one would hardly be shorter."""
        pace = Pace()
        while not pace.has_caught_up:
            pace = pace.after(self.round())

    def round(self) -> ReplayRound:
        """Fold the missing records up to the current end of the log."""
        began = time.perf_counter()
        topic = self.feed.view.stream.topic
        end = self.kafka.ends(topic)
        first = position = self._version().position
        self._report(end)
        while position != end:
            check_same_topic(self.kafka, self.manifests, self.feed.name, self.number)
            self.kafka.check_complete(
                topic, position, f"View {self.feed.name}", replay_hint(self.feed.name)
            )
            segment = self._computed(position, end.at_most(position, self.chunk))
            try:
                append_segment(self.manifests, self.feed, self.number, segment)
            except ChainConflict:
                # A batch of this version was published meanwhile; it may be ahead of this round's end.
                log.info("discarded a stale segment of %s starting at %s", self.feed.name, position)
                break
            position = segment.end
            self._report(end)
        arrived = self.kafka.ends(topic) - end
        return ReplayRound(self._version().position - first, time.perf_counter() - began, arrived)

    def report_outpaced(self, done: ReplayRound) -> None:
        """Report that the stream is faster than the replay."""
        self._report(self.kafka.ends(self.feed.view.stream.topic), done)

    def _report(self, end: TopicOffsets, outpaced: ReplayRound | None = None) -> None:
        version = self._version()
        done, total = version.position - version.base, end - version.base
        self.report(
            ReplayProgress(self.number, done, total, time.perf_counter() - self.began, outpaced)
        )

    def _version(self) -> Version:
        return self.manifests.existing(self.feed.name).version(self.number)

    def _computed(self, start: TopicOffsets, end: TopicOffsets) -> ViewSegment:
        """The states between two positions, computed by small jobs of one task each, without a shuffle.

        A key may have a state in each of them; readers merge them.
        """

        def part(ends: tuple[TopicOffsets, TopicOffsets]) -> ViewSegment:
            stream = self.feed.view.stream
            raw = read_log(self.spark, self.kafka, stream.topic, *ends, self.group)
            return writer.write(Piece(raw, parse(stream, raw).coalesce(1), *ends))

        writer = SegmentWriter(self.manifests, self.kafka, self.feed, self.number)
        bounds = start.towards(end, max(1, math.ceil((end - start) / PART)))
        # One more than the cores: the next job is planned while others run.
        with ThreadPoolExecutor(cores_of(self.spark) + 1, thread_name_prefix="replay") as pool:
            parts = list(pool.map(part, pairwise(bounds)))
        files = tuple(file for one in parts for file in one.files)
        return replace(parts[-1], start=start, files=files)


def switch(manifests: Manifests, feed: CompiledView, number: int) -> Manifest:
    """Activate a version; the previous one stays for a rollback."""
    topic = feed.view.stream.topic
    return manifests.change(feed.name, topic, lambda manifest: manifest.switched_to(number))


def starting_point(kafka: KafkaLog, topic: str, text: str) -> TopicOffsets:
    """The position of `earliest`, a time (2026-11-15T08:00Z), or an offset in every partition."""
    starts = kafka.starts(topic)
    if text == "earliest":
        return starts
    if re.fullmatch(r"\d+", text):
        ends = kafka.ends(topic)
        wanted = int(text)
        return TopicOffsets(
            tuple(min(max(wanted, first), ends[p]) for p, first in enumerate(starts.next))
        )
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"{text!r} is no place in a topic. It is earliest, an offset, or a time like "
            "2026-11-15T08:00:00Z."
        ) from None
    at = at.replace(tzinfo=at.tzinfo or UTC)
    return kafka.at_time(topic, int(at.timestamp() * 1000))
