"""The speed layer: partial states of what is new in a topic, for all views that read it.

There is no checkpoint besides the manifests: a version's chain of segments says which records are in
it, and the next micro-batch begins there. A process that dies between writing states and listing them
leaves a file that nobody reads.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from strom.pipelines.definitions.stream import Stream
from strom.pipelines.failures import kind_of, plain_reason
from strom.pipelines.freshness import Completeness, Freshness
from strom.pipelines.kafka_log import KafkaLog, KafkaUnavailable
from strom.pipelines.layers.compiled_views import CompiledView, append_segment, write_small_segment
from strom.pipelines.layers.dead_letters import DeadLetter
from strom.pipelines.layers.handover import is_paused
from strom.pipelines.layers.record_ranges import in_slices
from strom.pipelines.layers.skipping import Piece, write_skipping, write_unskipped
from strom.pipelines.offsets import Offsets
from strom.pipelines.set_aside import ViewStates
from strom.pipelines.spark.parsing import dead_rows, dead_sizes, parse
from strom.pipelines.spark.reading import read_log
from strom.pipelines.topic_identity import check_same_topic, replay_again
from strom.pipelines.views.chain import ChainConflict, Segment
from strom.pipelines.views.manifests import Manifests

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_JOBS_AT_ONCE = 4
DEAD_SLICE_BYTES = 16 << 20
"""Of dead letters that this process holds at once."""
_LETTER_BYTES = 1_000
"""What a dead letter takes besides its key and value."""

Malformed = Sequence[tuple[int, int, int]]
"""Partition, offset and bytes of the malformed records of a micro-batch."""


@dataclass(frozen=True)
class Target:
    """A version to feed."""

    feed: CompiledView
    number: int


@dataclass
class Progress:
    """How far the speed layer of a topic is; shown to people."""

    records: int = 0
    batches: int = 0
    dead_letters: int = 0
    lag: int = 0
    """Of the view that is furthest behind, without those that are set aside."""
    lags: dict[str, int] = field(default_factory=dict)
    """Of every view."""
    seconds: float = 0.0
    """Of the last micro-batch."""
    total_seconds: float = 0.0
    """Of all micro-batches."""
    freshness: Freshness = field(default_factory=Freshness)
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
        self.states = ViewStates(manifests)
        self._confirmed: dict[int, int] = {}
        """The last dead letter of each partition that the broker has confirmed, by its offset."""
        self.progress = Progress()

    def step(self) -> int:
        """Take in what is new, up to a limit; returns how many records that were."""
        topic = self._stream.topic
        end = self._log.ends(topic)
        self.progress.freshness.looked(time.monotonic(), end - Offsets())
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
            if until != position:  # behind it too, where a topic was made anew
                whole = self._or_fails(targets[0], partial(self._check_complete, targets[0], end))
                if not whole:
                    for target in targets[1:]:
                        self._or_fails(target, partial(self._check_complete, target, end))
                elif self._take(targets, position, until):
                    taken = max(taken, until - position)
        end = self._log.ends(topic) if taken else end
        self.progress.freshness.looked(time.monotonic(), end - Offsets())
        self._note_lag(end)
        return taken

    def _check_topic(self, target: Target) -> bool:
        check_same_topic(self._log, self._manifests, target.feed.name, target.number)
        return True

    def _check_complete(self, target: Target, end: Offsets) -> bool:
        name, position = target.feed.name, self._position(target)
        self._log.check_complete(
            self._stream.topic, position, f"View {name}", replay_again(name), ends=end
        )
        return True

    def _or_fails(self, target: Target, work: Callable[[], bool]) -> bool:
        """Do something for one version; False if that failed: the others go on."""
        try:
            return work()
        except KafkaUnavailable:
            raise  # nobody can go on
        except Exception as error:
            name, reason = target.feed.name, plain_reason(error)
            kind = kind_of(error)
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

    def _note_lag(self, end: Offsets) -> None:
        self.progress.lags = {one.feed.name: end - self._position(one) for one in self.everyone}
        self.progress.completeness.looked(time.monotonic(), end - Offsets(), self.progress.lags)
        lags = (self.progress.lags[one.feed.name] for one in self._ready)
        self.progress.lag = max(lags, default=0)

    @property
    def dead_letters(self) -> Target | None:
        """The version that is fed with malformed records. Another may be set between two steps."""
        return self._dead_letters

    @dead_letters.setter
    def dead_letters(self, target: Target) -> None:
        self._dead_letters = target
        self.states.forget(target.feed.name)
        self._confirmed.clear()  # it begins at the start of the log, which may be another one

    @property
    def everyone(self) -> list[Target]:
        """All versions that it feeds, the dead letters' among them."""
        return [*self.targets, *([self._dead_letters] if self._dead_letters else [])]

    @property
    def _ready(self) -> list[Target]:
        """The versions that can be given records now."""
        return [one for one in self.everyone if self.states.is_ready(one.feed.name, one.number)]

    def _position(self, target: Target) -> Offsets:
        return self._manifests.existing(target.feed.name).version(target.number).position

    def _by_position(self) -> dict[Offsets, list[Target]]:
        """Versions that stand at the same place read the log together."""
        positions: dict[Offsets, list[Target]] = {}
        for target in self._ready:
            positions.setdefault(self._position(target), []).append(target)
        return positions

    def _take(self, targets: Sequence[Target], start: Offsets, end: Offsets) -> bool:
        """Give versions the records between two positions; whether one of them has them now."""
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
        piece = Piece(raw, parse(self._stream, raw).persist(), start, end)
        try:
            # Also brings the parsed records into memory, on all cores, for whoever comes next.
            columns = dead_sizes(piece.parsed).toArrow().to_pydict().values()
            malformed = list(zip(*columns, strict=True))
            # Side by side, for one job's planning leaves the cores to another's work.
            computed = self._pool.map(partial(self._computed, piece, malformed), targets)
            published = self._published(targets, list(computed), piece)
        finally:
            piece.parsed.unpersist()
        if not published:
            return False
        if self._dead_letters in published:
            self.progress.dead_letters += len(malformed)
        self.progress.records += end - start
        self.progress.batches += 1
        self.progress.seconds = time.perf_counter() - began
        self.progress.total_seconds += self.progress.seconds
        self.progress.freshness.published(time.monotonic(), start - Offsets(), end - Offsets())
        return True

    def _computed(self, piece: Piece, malformed: Malformed, target: Target) -> Segment | Exception:
        """Write the states of one version. Nobody sees them yet."""
        try:
            if target is self._dead_letters:
                return self._dead_segment(target, piece, malformed)
            return write_unskipped(self._manifests, target.feed, target.number, piece, few=True)
        except Exception as error:  # noqa: BLE001 - it is this version's, and handled with the others
            return error

    def _published(
        self, targets: Sequence[Target], computed: Sequence[Segment | Exception], piece: Piece
    ) -> list[Target]:
        """Make visible what was computed, of all versions together; which have these records now.

        Then only those that failed are looked after: no other waits until their records are found.
        """
        published = []
        failed: list[tuple[Target, Exception]] = []
        for target, states in zip(targets, computed, strict=True):
            if isinstance(states, Exception):
                failed.append((target, states))
            elif self._or_fails(target, partial(self._publish, target, states)):
                published.append(target)
        for target, error in failed:
            if self._or_fails(target, partial(self._publish_computable, target, error, piece)):
                published.append(target)
        return published

    def _publish_computable(self, target: Target, error: Exception, piece: Piece) -> bool:
        """Publish the states of the records that can be computed, if it was others that failed."""
        if kind_of(error) != "data":
            raise error
        place = self._manifests, self._log, target.feed, target.number
        return self._publish(target, write_skipping(*place, piece, plain_reason(error), few=True))

    def _dead_segment(self, target: Target, piece: Piece, malformed: Malformed) -> Segment:
        """Send the malformed records to their topic and write them to files, slice by slice."""
        sizes = [(p, offset, size + _LETTER_BYTES) for p, offset, size in malformed]
        segment = Segment(piece.start, piece.end, ())
        for condition in in_slices(sizes, DEAD_SLICE_BYTES):
            dead = dead_rows(piece.parsed.where(condition)).toArrow()
            self._send_dead_letters(dead)
            written = write_small_segment(
                self._manifests, target.feed, target.number, dead, piece.start, piece.end
            )
            segment = replace(written, files=(*segment.files, *written.files))
        return segment

    def _send_dead_letters(self, dead: "pa.Table") -> None:
        """Send a slice, without what was confirmed before a later one was refused."""
        # Python's datetime ends with the year 9999; what a producer takes for the time need not.
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

    def _publish(self, target: Target, segment: Segment) -> bool:
        """Make the states visible, and tell the view's progress."""
        try:
            append_segment(self._manifests, target.feed, target.number, segment)
        except ChainConflict:
            # A batch, or another process, has brought this version further; the next step sees it.
            log.info("states of %s from %s on came too late", target.feed.name, segment.start)
            return True
        self.states.succeeded(target.feed.name, target.number)
        if target is not self._dead_letters:
            group = f"{self._group}.{target.feed.name}"
            self._log.commit(group, self._stream.topic, segment.end)
        return True
