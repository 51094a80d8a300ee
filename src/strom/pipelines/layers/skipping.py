"""Segments without the records that make a view's expressions fail.

Such a record is found by bisection, sent to the dead letters with the view's name, and listed in the
version: batches of that version skip it as well. The order matters: the letter is durable before the
record is listed, and it is listed before the segment without it is published.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.failures import classify, plain_reason
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers.bisecting import NoSingleRecord, TooManyFail, failing_records
from strom.pipelines.layers.compiled_views import CompiledView, write_segment
from strom.pipelines.layers.dead_letters import DeadLetter
from strom.pipelines.layers.record_ranges import Record, RecordRange, one_of
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.views.manifests import Layer, Manifest, Manifests, ViewSegment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

MOST_PER_STEP = 100
"""The limit per piece of the log: with more failing records, the view's definition is wrong."""
MOST_PER_VERSION = 10_000
PROBES = 3_000
"""The limit on probes: each takes 50 ms or more, and other views of the topic wait meanwhile."""
NOT_ONE = "cannot be computed, though no single record is the cause: "
_SENT_AT_ONCE = 10
"""The limit on letters in memory: records have up to a megabyte, or more."""


class ViewFailed(UserError):
    """A view that cannot process the next records."""


@dataclass(frozen=True)
class Piece:
    """Records between two positions, raw and as rows."""

    raw: "DataFrame"
    parsed: "DataFrame"
    start: TopicOffsets
    end: TopicOffsets


@dataclass(frozen=True)
class SegmentWriter:
    """Writes segments of one version, without the records that it cannot compute."""

    manifests: Manifests
    kafka: KafkaLog
    feed: CompiledView
    number: int
    layer: Layer = "speed"
    few: bool = False

    def write(self, piece: Piece) -> ViewSegment:
        """Write the states of all computable records; ViewFailed if there are too many others."""
        try:
            return self.write_unskipped(piece)
        except Exception as error:
            if classify(error) != "data":
                raise
            reason = plain_reason(error)
        return self.write_skipping(piece, reason)

    def write_unskipped(self, piece: Piece) -> ViewSegment:
        """Write the states of all records but those that the version already skips."""
        return write_segment(
            self.manifests,
            self.feed,
            self.number,
            self._unskipped(piece),
            piece.start,
            piece.end,
            layer=self.layer,
            few=self.few,
        )

    def write_skipping(self, piece: Piece, reason: str) -> ViewSegment:
        """Find the failing records, skip them, and write the others; `reason` is why all failed."""
        name = self.feed.name
        found = self._failing(piece, reason)
        before = len(self._skipped)
        if before + len(found) > MOST_PER_VERSION:
            (partition, offset), why = next(iter(found.items()))
            raise self._failed(
                f"has skipped {before} records that it could not compute, and would exceed the limit of "
                f"{MOST_PER_VERSION}. The next one is partition {partition} offset {offset}: {why}"
            )
        self._send(piece.raw, found)
        self.manifests.change(
            name, self.feed.view.stream.topic, lambda manifest: self._noted(manifest, found)
        )
        for (partition, offset), why in found.items():
            log.warning("view %s skips partition %d offset %d: %s", name, partition, offset, why)
        try:
            return self.write_unskipped(piece)
        except Exception as error:
            if classify(error) != "data":
                raise
            raise self._failed(NOT_ONE + plain_reason(error)) from error

    @property
    def _skipped(self) -> tuple[Record, ...]:
        return self.manifests.existing(self.feed.name).version(self.number).skipped

    def _unskipped(self, piece: Piece) -> "DataFrame":
        inside = RecordRange(piece.start, piece.end)
        skipped = [record for record in self._skipped if record in inside]
        if not skipped:
            return piece.parsed
        condition = one_of(skipped, partition="_partition", offset="_offset")
        return piece.parsed.where(f"NOT ({condition})")

    def _failing(self, piece: Piece, reason: str) -> dict[Record, str]:
        rows, inside = self._unskipped(piece), RecordRange(piece.start, piece.end)

        def fails(low: int, high: int) -> str | None:
            part = rows.where(inside.condition(low, high)).coalesce(1)
            try:
                # Every column is computed, and nothing is stored.
                self.feed.states(part).write.format("noop").mode("overwrite").save()
            except Exception as error:
                if classify(error) != "data":
                    raise
                return plain_reason(error)
            return None

        try:
            found = failing_records(inside.size, fails, most=MOST_PER_STEP, probes=PROBES)
        except TooManyFail:
            raise self._failed(
                f"cannot compute more than {MOST_PER_STEP} of the {inside.size} records from "
                f"{inside.start} on; one of the reasons: {reason}"
            ) from None
        except NoSingleRecord:
            raise self._failed(NOT_ONE + reason) from None
        return {inside.record(index): why for index, why in found.items()}

    def _send(self, raw: "DataFrame", found: Mapping[Record, str]) -> None:
        """Send the records to the stream's dead letters, and wait until they are durable."""
        stream = self.feed.view.stream
        records = sorted(found)
        for first in range(0, len(records), _SENT_AT_ONCE):
            some = records[first : first + _SENT_AT_ONCE]
            rows = raw.where(one_of(some, partition="partition", offset="offset"))
            letters = [
                DeadLetter(
                    **row, reason=found[row["partition"], row["offset"]], view=self.feed.name
                )
                for row in rows.select("partition", "offset", "key", "value").toArrow().to_pylist()
            ]
            self.kafka.send_dead_letters(stream.topic, stream.dead_letter_topic, letters)

    def _noted(self, manifest: Manifest, found: Iterable[Record]) -> Manifest:
        version = manifest.version(self.number)
        skipped = tuple(sorted({*version.skipped, *found}))
        return manifest.with_version(replace(version, skipped=skipped))

    def _failed(self, what: str) -> ViewFailed:
        name = self.feed.name
        return ViewFailed(f"View {name} {what} Correct its definition, then: strom replay {name}")
