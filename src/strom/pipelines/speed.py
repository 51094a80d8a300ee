"""The speed layer: partial states of what is new in a topic, for all views that read it.

There is no checkpoint besides the manifests: a version's chain of segments says which records are in
it, and the next micro-batch begins there. A process that dies between writing states and listing them
leaves a file that nobody reads.
"""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strom.pipelines.chain import OutOfPlace, Segment
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.feeds import Feed, append_segment, write_segment, write_small_segment
from strom.pipelines.freshness import Freshness
from strom.pipelines.handover import is_paused
from strom.pipelines.kafka_log import DeadLetter, KafkaLog
from strom.pipelines.manifests import Manifests
from strom.pipelines.offsets import Offsets
from strom.pipelines.same_topic import check_same_topic, replay_again
from strom.pipelines.spark.parsing import dead_rows, parse
from strom.pipelines.spark.reading import read_log

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_JOBS_AT_ONCE = 4


@dataclass(frozen=True)
class Target:
    """A version to feed."""

    feed: Feed
    number: int


@dataclass
class Progress:
    """How far the speed layer of a topic is; shown to people."""

    records: int = 0
    batches: int = 0
    dead_letters: int = 0
    lag: int = 0
    seconds: float = 0.0
    """Of the last micro-batch."""
    freshness: Freshness = field(default_factory=Freshness)


class SpeedLayer:
    """Feeds the versions of all views that read one topic."""

    def __init__(
        self,
        spark: "SparkSession",
        log: KafkaLog,
        manifests: Manifests,
        stream: Stream,
        *,
        group: str,
        max_records: int = 500_000,
        dead_letters: Target | None = None,
    ) -> None:
        self._spark = spark
        self._log = log
        self._manifests = manifests
        self._stream = stream
        self._group = group
        self._max_records = max_records
        self._dead_letters = dead_letters
        self._pool = ThreadPoolExecutor(_JOBS_AT_ONCE, thread_name_prefix="states")
        self.targets: list[Target] = []
        self.progress = Progress()

    def step(self) -> int:
        """Take in what is new, up to a limit; returns how many records that were."""
        topic = self._stream.topic
        end = self._log.ends(topic)
        self.progress.freshness.looked(time.monotonic(), end - Offsets())
        taken = 0
        for target in self._everyone:
            check_same_topic(self._log, self._manifests, target.feed.name, target.number)
        self._note_lag(end)
        for position, standing_there in self._by_position().items():
            targets = [
                one for one in standing_there if not is_paused(self._manifests, one.feed.name)
            ]
            if not targets:
                continue
            until = end.at_most(position, self._max_records)
            if until != position:  # behind it too, where a topic was made anew
                name = targets[0].feed.name
                self._log.check_complete(
                    topic, position, f"View {name}", replay_again(name), ends=end
                )
                self._take(targets, position, until)
                taken = max(taken, until - position)
        end = self._log.ends(topic) if taken else end
        self.progress.freshness.looked(time.monotonic(), end - Offsets())
        self._note_lag(end)
        return taken

    def _note_lag(self, end: Offsets) -> None:
        self.progress.lag = max((end - position for position in self._by_position()), default=0)

    @property
    def dead_letters(self) -> Target | None:
        """The version that is fed with malformed records. Another may be set between two steps."""
        return self._dead_letters

    @dead_letters.setter
    def dead_letters(self, target: Target) -> None:
        self._dead_letters = target

    @property
    def _everyone(self) -> list[Target]:
        return [*self.targets, *([self._dead_letters] if self._dead_letters else [])]

    def _by_position(self) -> dict[Offsets, list[Target]]:
        """Versions that stand at the same place read the log together."""
        positions: dict[Offsets, list[Target]] = {}
        for target in self._everyone:
            manifest = self._manifests.existing(target.feed.name)
            positions.setdefault(manifest.version(target.number).position, []).append(target)
        return positions

    def _take(self, targets: Sequence[Target], start: Offsets, end: Offsets) -> None:
        began = time.perf_counter()
        raw = read_log(
            self._spark,
            self._log.servers,
            self._stream.topic,
            start,
            end,
            group=self._group,
            client_settings=self._log.java_settings,
        )
        parsed = parse(self._stream, raw).persist()
        try:
            # Also brings the parsed records into memory, on all cores, for whoever comes next.
            dead = dead_rows(parsed).toArrow()
            # Side by side, for one job's planning leaves the cores to another's work.
            segments = self._pool.map(
                lambda target: self._states(target, parsed, dead, start, end), targets
            )
            for target, segment in zip(targets, segments, strict=True):
                self._publish(target, segment)
        finally:
            parsed.unpersist()
        self.progress.records += end - start
        self.progress.dead_letters += dead.num_rows
        self.progress.batches += 1
        self.progress.seconds = time.perf_counter() - began
        self.progress.freshness.published(time.monotonic(), start - Offsets(), end - Offsets())

    def _states(
        self, target: Target, parsed: "DataFrame", dead: "pa.Table", start: Offsets, end: Offsets
    ) -> Segment:
        """Write the states of one version. Nobody sees them yet."""
        place = self._manifests, target.feed, target.number
        if target is not self._dead_letters:
            return write_segment(*place, parsed, start, end, few=True)
        if not dead.num_rows:
            return Segment(start, end, ())
        self._send_dead_letters(dead)
        return write_small_segment(*place, dead, start, end)

    def _publish(self, target: Target, segment: Segment) -> None:
        """Make the states visible, and tell the view's progress."""
        try:
            append_segment(self._manifests, target.feed, target.number, segment)
        except OutOfPlace:
            # A batch, or another process, has brought this version further; the next step sees it.
            log.info("states of %s from %s on came too late", target.feed.name, segment.start)
            return
        if target is not self._dead_letters:
            group = f"{self._group}.{target.feed.name}"
            self._log.commit(group, self._stream.topic, segment.end)

    def _send_dead_letters(self, dead: "pa.Table") -> None:
        letters = (
            DeadLetter(row["_partition"], row["_offset"], row["_key"], row["value"], row["reason"])
            for row in dead.to_pylist()
        )
        self._log.send_dead_letters(self._stream.topic, self._stream.dead_letter_topic, letters)
