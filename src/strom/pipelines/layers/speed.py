"""The speed layer: computes the states of new records of a topic, for all views that read it.

The manifests are the only checkpoint: a version's chain of segments defines which records it includes,
and the next micro-batch starts there. A process that dies between writing states and listing them
leaves a file that is never read.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from strom.model.errors import StromError
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.failures import classify, plain_reason
from strom.pipelines.freshness import Completeness, FreshnessTracker
from strom.pipelines.kafka_log import KafkaLog, KafkaUnavailable
from strom.pipelines.layers.compiled_views import CompiledView, append_segment, write_small_segment
from strom.pipelines.layers.dead_letters import DeadLetter
from strom.pipelines.layers.handover import is_paused
from strom.pipelines.layers.record_ranges import in_slices
from strom.pipelines.layers.skipping import Piece, SegmentWriter
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.set_aside import ViewStates
from strom.pipelines.spark.parsing import DEAD_LETTER, malformed_records, malformed_rows, parse
from strom.pipelines.spark.reading import read_log
from strom.pipelines.topic_identity import check_same_topic, replay_hint
from strom.pipelines.views.manifests import ChainConflict, Manifests, ViewSegment

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_JOBS_AT_ONCE = 4
DEAD_SLICE_BYTES = 16 << 20
"""The limit on dead letters in memory, in bytes."""
_LETTER_BYTES = 1_000
"""The overhead of a dead letter besides key and value."""


@dataclass(frozen=True)
class SpeedTarget:
    """A version that the speed layer feeds."""

    feed: CompiledView
    number: int


@dataclass
class SpeedProgress:
    """The progress of a topic's speed layer."""

    records: int = 0
    batches: int = 0
    dead_letters: int = 0
    lag: int = 0
    """The lag of the view that is furthest behind, without those that are set aside."""
    lags: dict[str, int] = field(default_factory=dict)
    """The lag of every view."""
    seconds: float = 0.0
    """The duration of the last micro-batch."""
    total_seconds: float = 0.0
    """The duration of all micro-batches."""
    freshness: FreshnessTracker = field(default_factory=FreshnessTracker)
    completeness: Completeness = field(default_factory=Completeness)


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
        dead_letters: SpeedTarget | None = None,
    ) -> None:
        self._spark = spark
        self._log = log
        self._manifests = manifests
        self._stream = stream
        self._group = group
        self._max_records = max_records
        self._dead_letters = dead_letters
        self._pool = ThreadPoolExecutor(_JOBS_AT_ONCE, thread_name_prefix="states")
        self.targets: list[SpeedTarget] = []
        self.states = ViewStates(manifests)
        self._confirmed: dict[int, int] = {}
        """The offset of the last acknowledged dead letter of each partition."""
        self.progress = SpeedProgress()

    def step(self) -> int:
        """Process new records, up to a limit; returns their number."""
        topic = self._stream.topic
        end = self._log.ends(topic)
        self.progress.freshness.observe_end(time.monotonic(), end - TopicOffsets())
        for target in self._ready:
            self._or_fails(target, partial(self._check_topic, target))
        self._note_lag(end)
        taken = 0
        for position, standing_there in self._by_position().items():
            targets = [
                one for one in standing_there if not is_paused(self._manifests, one.feed.name)
            ]
            if not targets:
                continue
            until = end.at_most(position, self._max_records)
            if until != position:  # it may also be before it, if the topic was recreated
                whole = self._or_fails(targets[0], partial(self._check_complete, targets[0], end))
                if not whole:
                    for target in targets[1:]:
                        self._or_fails(target, partial(self._check_complete, target, end))
                elif self._take(targets, position, until):
                    taken = max(taken, until - position)
        end = self._log.ends(topic) if taken else end
        self.progress.freshness.observe_end(time.monotonic(), end - TopicOffsets())
        self._note_lag(end)
        return taken

    def _check_topic(self, target: SpeedTarget) -> bool:
        check_same_topic(self._log, self._manifests, target.feed.name, target.number)
        return True

    def _check_complete(self, target: SpeedTarget, end: TopicOffsets) -> bool:
        name, position = target.feed.name, self._position(target)
        self._log.check_complete(
            self._stream.topic, position, f"View {name}", replay_hint(name), ends=end
        )
        return True

    def _or_fails(self, target: SpeedTarget, work: Callable[[], bool]) -> bool:
        """Do something for one version; False if it failed: the others continue."""
        try:
            return work()
        except KafkaUnavailable:
            raise  # no version can continue
        except Exception as error:
            name, reason = target.feed.name, plain_reason(error)
            kind = classify(error)
            if kind == "fatal":
                raise
            if self._manifests.read(name) is None:  # dropped meanwhile
                return False
            log.debug("view %s failed", name, exc_info=error)
            if kind == "transient":
                self.states.retry_later(name, target.number, reason)
            else:
                self.states.set_aside(name, target.number, reason)
            return False

    def _note_lag(self, end: TopicOffsets) -> None:
        self.progress.lags = {one.feed.name: end - self._position(one) for one in self.all_targets}
        now, size = time.monotonic(), end - TopicOffsets()
        self.progress.completeness.observe_end(now, size, self.progress.lags)
        lags = (self.progress.lags[one.feed.name] for one in self._ready)
        self.progress.lag = max(lags, default=0)

    @property
    def dead_letters(self) -> SpeedTarget | None:
        """The version for malformed records. Another may be set between two steps."""
        return self._dead_letters

    @dead_letters.setter
    def dead_letters(self, target: SpeedTarget) -> None:
        self._dead_letters = target
        self.states.forget(target.feed.name)
        self._confirmed.clear()  # it starts at the beginning of the log, which may be a new one

    @property
    def all_targets(self) -> list[SpeedTarget]:
        """All versions that it feeds, including that of dead letters."""
        return [*self.targets, *([self._dead_letters] if self._dead_letters else [])]

    @property
    def existing_targets(self) -> list[SpeedTarget]:
        """`targets` without those whose view another process has dropped."""
        return [one for one in self.targets if not self.is_dropped(one)]

    def is_dropped(self, target: SpeedTarget) -> bool:
        """Whether the view of a version was dropped."""
        return self._manifests.read(target.feed.name) is None

    @contextmanager
    def ignoring_dropped_views(self) -> Iterator[None]:
        """Ignore an error if a view was dropped concurrently, which explains it."""
        try:
            yield
        except (StromError, OSError):
            if not any(map(self.is_dropped, self.all_targets)):
                raise

    @property
    def _ready(self) -> list[SpeedTarget]:
        """The versions that can process records now."""
        return [one for one in self.all_targets if self.states.is_ready(one.feed.name, one.number)]

    def _position(self, target: SpeedTarget) -> TopicOffsets:
        return self._manifests.existing(target.feed.name).version(target.number).position

    def _by_position(self) -> dict[TopicOffsets, list[SpeedTarget]]:
        """Versions at the same position read the log together."""
        positions: dict[TopicOffsets, list[SpeedTarget]] = {}
        for target in self._ready:
            positions.setdefault(self._position(target), []).append(target)
        return positions

    def _take(self, targets: Sequence[SpeedTarget], start: TopicOffsets, end: TopicOffsets) -> bool:
        """Feed the records between two positions to versions.

        Returns whether one of them has them now.
        """
        began = time.perf_counter()
        raw = read_log(self._spark, self._log, self._stream.topic, start, end, self._group)
        piece = Piece(raw, parse(self._stream, raw).persist(), start, end)
        try:
            # Also caches the parsed records, on all cores, for the other versions.
            malformed = malformed_records(piece.parsed).toArrow()
            # In parallel: while one job is planned, another uses the cores.
            computed = self._pool.map(partial(self._computed, piece, malformed), targets)
            published = self._published(targets, list(computed), piece)
        finally:
            piece.parsed.unpersist()
        if not published:
            return False
        if self._dead_letters in published:
            self.progress.dead_letters += malformed.num_rows
        self.progress.records += end - start
        self.progress.batches += 1
        self.progress.seconds = time.perf_counter() - began
        self.progress.total_seconds += self.progress.seconds
        first, last = start - TopicOffsets(), end - TopicOffsets()
        self.progress.freshness.on_published(time.monotonic(), first, last)
        return True

    def _computed(
        self, piece: Piece, malformed: "pa.Table", target: SpeedTarget
    ) -> ViewSegment | Exception:
        """Write the states of one version, without listing them."""
        try:
            if target is self._dead_letters:
                return self._dead_segment(target, piece, malformed)
            return self._writer(target).write_unskipped(piece)
        except Exception as error:  # noqa: BLE001 - the error belongs to this version, and is handled below
            return error

    def _published(
        self,
        targets: Sequence[SpeedTarget],
        computed: Sequence[ViewSegment | Exception],
        piece: Piece,
    ) -> list[SpeedTarget]:
        """Publish what was computed, of all versions together; returns those that have these records now.

        Failed versions are handled afterwards: no other waits until their failing records are found.
        """
        published = []
        failed: list[tuple[SpeedTarget, Exception]] = []
        for target, states in zip(targets, computed, strict=True):
            if isinstance(states, Exception):
                failed.append((target, states))
            elif self._or_fails(target, partial(self._publish, target, states)):
                published.append(target)
        for target, error in failed:
            if self._or_fails(target, partial(self._publish_computable, target, error, piece)):
                published.append(target)
        return published

    def _publish_computable(self, target: SpeedTarget, error: Exception, piece: Piece) -> bool:
        """Publish the states of the computable records, if only some records fail."""
        if classify(error) != "data":
            raise error
        return self._publish(
            target, self._writer(target).write_skipping(piece, plain_reason(error))
        )

    def _writer(self, target: SpeedTarget) -> SegmentWriter:
        return SegmentWriter(self._manifests, self._log, target.feed, target.number, few=True)

    def _dead_segment(
        self, target: SpeedTarget, piece: Piece, malformed: "pa.Table"
    ) -> ViewSegment:
        """Send the malformed records to their topic and write them to files, slice by slice."""
        segment = ViewSegment(piece.start, piece.end, ())
        for dead in _dead_slices(piece, malformed):
            self._send_dead_letters(dead)
            written = write_small_segment(
                self._manifests, target.feed, target.number, dead, piece.start, piece.end
            )
            segment = replace(written, files=(*segment.files, *written.files))
        return segment

    def _send_dead_letters(self, dead: "pa.Table") -> None:
        """Send a slice, without letters that were acknowledged before a later one was rejected."""
        # Python's datetime ends with the year 9999; a producer's timestamp may not.
        dead = dead.drop_columns("_timestamp").sort_by(
            [("_partition", "ascending"), ("_offset", "ascending")]
        )
        letters = (
            DeadLetter(row["_partition"], row["_offset"], row["_key"], row["value"], row["reason"])
            for some in dead.to_batches(max_chunksize=1_000)
            for row in some.to_pylist()
            if row["_offset"] > self._confirmed.get(row["_partition"], -1)
        )
        self._log.send_dead_letters(self._stream.topic, self._stream.dead_letter_topic, letters)
        for row in dead.group_by("_partition").aggregate([("_offset", "max")]).to_pylist():
            known = self._confirmed.get(row["_partition"], -1)
            self._confirmed[row["_partition"]] = max(known, row["_offset_max"])

    def _publish(self, target: SpeedTarget, segment: ViewSegment) -> bool:
        """Publish the states, and report the view's progress."""
        try:
            append_segment(self._manifests, target.feed, target.number, segment)
        except ChainConflict:
            # A batch, or another process, has advanced this version; the next step reads its position.
            log.info(
                "discarded a stale segment of %s starting at %s", target.feed.name, segment.start
            )
            return True
        self.states.on_success(target.feed.name, target.number)
        if target is not self._dead_letters:
            group = f"{self._group}.{target.feed.name}"
            self._log.commit(group, self._stream.topic, segment.end)
        return True


def _dead_slices(piece: Piece, malformed: "pa.Table") -> Iterator["pa.Table"]:
    """The malformed records in tables within a limit in bytes; in order of partition and offset."""
    import pyarrow as pa

    columns = malformed.select(["_partition", "_offset", "bytes"]).to_pydict().values()
    sizes = [(p, offset, size + _LETTER_BYTES) for p, offset, size in zip(*columns, strict=True)]
    letters = malformed.column(DEAD_LETTER)
    if not letters.null_count and sum(size for _, _, size in sizes) <= DEAD_SLICE_BYTES:
        if sizes:
            yield pa.Table.from_struct_array(letters.combine_chunks())
        return
    for condition in in_slices(sizes, DEAD_SLICE_BYTES):
        yield malformed_rows(piece.parsed.where(condition)).toArrow()
