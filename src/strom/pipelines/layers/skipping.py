"""Segments without the records that make a view's expressions fail.

Such a record is found by bisection, sent to the dead letters with the view's name, and listed in the
version: batches of that version skip it as well. The order matters: the letter is durable before the
record is listed, and it is listed before the segment without it is published.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
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
from strom.pipelines.views.chain import Layer, Manifest, ViewSegment
from strom.pipelines.views.manifests import Manifests

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

MOST_PER_STEP = 100
"""The limit per piece of the log: with more failing records, the view's definition is wrong."""
MOST_PER_VERSION = 10_000
PROBES = 3_000
"""The limit on probes: each takes 50 ms or more, and other views of the topic wait meanwhile."""
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


def write_computable(
    manifests: Manifests,
    kafka: KafkaLog,
    feed: CompiledView,
    number: int,
    piece: Piece,
    *,
    layer: Layer = "speed",
) -> ViewSegment:
    """Write the states of all computable records; ViewFailed if there are too many others."""
    try:
        return write_unskipped(manifests, feed, number, piece, layer=layer)
    except Exception as error:
        if classify(error) != "data":
            raise
        reason = plain_reason(error)
    return write_skipping(manifests, kafka, feed, number, piece, reason, layer=layer)


def write_unskipped(
    manifests: Manifests,
    feed: CompiledView,
    number: int,
    piece: Piece,
    *,
    layer: Layer = "speed",
    few: bool = False,
) -> ViewSegment:
    """Write the states of all records but those that the version already skips."""
    rows = _without(piece.parsed, _skipped(manifests, feed, number, piece))
    return write_segment(
        manifests, feed, number, rows, piece.start, piece.end, layer=layer, few=few
    )


def write_skipping(
    manifests: Manifests,
    kafka: KafkaLog,
    feed: CompiledView,
    number: int,
    piece: Piece,
    reason: str,
    *,
    layer: Layer = "speed",
    few: bool = False,
) -> ViewSegment:
    """Find the failing records, skip them, and write the others; `reason` is why all of them failed."""
    rows = _without(piece.parsed, _skipped(manifests, feed, number, piece))
    found = _failing(feed, rows, RecordRange(piece.start, piece.end), reason)
    before = len(manifests.existing(feed.name).version(number).skipped)
    if before + len(found) > MOST_PER_VERSION:
        raise ViewFailed(
            f"View {feed.name} has skipped {before} records that it could not compute, and would "
            f"exceed the limit of {MOST_PER_VERSION}. {_example(found)} {_way_out(feed)}"
        )
    _send(kafka, feed, piece.raw, found)
    manifests.change(
        feed.name, feed.view.stream.topic, lambda manifest: _noted(manifest, number, found)
    )
    for (partition, offset), why in found.items():
        log.warning("view %s skips partition %d offset %d: %s", feed.name, partition, offset, why)
    try:
        return write_unskipped(manifests, feed, number, piece, layer=layer, few=few)
    except Exception as error:
        if classify(error) != "data":
            raise
        raise ViewFailed(_not_one(feed, plain_reason(error))) from error


def _skipped(manifests: Manifests, feed: CompiledView, number: int, piece: Piece) -> list[Record]:
    inside = RecordRange(piece.start, piece.end)
    known = manifests.existing(feed.name).version(number).skipped
    return [record for record in known if record in inside]


def _failing(
    feed: CompiledView, rows: "DataFrame", inside: RecordRange, reason: str
) -> dict[Record, str]:
    def fails(low: int, high: int) -> str | None:
        part = rows.where(inside.condition(low, high)).coalesce(1)
        try:
            # Every column is computed, and nothing is stored.
            feed.states(part).write.format("noop").mode("overwrite").save()
        except Exception as error:
            if classify(error) != "data":
                raise
            return plain_reason(error)
        return None

    try:
        found = failing_records(inside.size, fails, most=MOST_PER_STEP, probes=PROBES)
    except TooManyFail:
        raise ViewFailed(
            f"View {feed.name} cannot compute more than {MOST_PER_STEP} of the {inside.size} records "
            f"from {inside.start} on; one of the reasons: {reason} {_way_out(feed)}"
        ) from None
    except NoSingleRecord:
        raise ViewFailed(_not_one(feed, reason)) from None
    return {inside.record(index): why for index, why in found.items()}


def _send(
    kafka: KafkaLog, feed: CompiledView, raw: "DataFrame", found: Mapping[Record, str]
) -> None:
    """Send the records to the stream's dead letters, and wait until they are durable."""
    stream = feed.view.stream
    records = sorted(found)
    for first in range(0, len(records), _SENT_AT_ONCE):
        some = records[first : first + _SENT_AT_ONCE]
        rows = raw.where(one_of(some, partition="partition", offset="offset"))
        letters = [
            DeadLetter(
                row["partition"],
                row["offset"],
                _bytes(row["key"]),
                _bytes(row["value"]),
                found[row["partition"], row["offset"]],
                feed.name,
            )
            for row in rows.select("partition", "offset", "key", "value").toArrow().to_pylist()
        ]
        kafka.send_dead_letters(stream.topic, stream.dead_letter_topic, letters)


def _bytes(value: bytes | None) -> bytes | None:
    return None if value is None else bytes(value)


def _without(rows: "DataFrame", records: Sequence[Record]) -> "DataFrame":
    if not records:
        return rows
    return rows.where(f"NOT ({one_of(records, partition='_partition', offset='_offset')})")


def _noted(manifest: Manifest, number: int, found: Iterable[Record]) -> Manifest:
    version = manifest.version(number)
    skipped = tuple(sorted({*version.skipped, *found}))
    return manifest.with_version(replace(version, skipped=skipped))


def _example(found: Mapping[Record, str]) -> str:
    (partition, offset), reason = next(iter(found.items()))
    return f"The next one is partition {partition} offset {offset}: {reason}"


def _not_one(feed: CompiledView, reason: str) -> str:
    return (
        f"View {feed.name} cannot be computed, though no single record is the cause: {reason} "
        f"{_way_out(feed)}"
    )


def _way_out(feed: CompiledView) -> str:
    return f"Correct its definition, then: strom replay {feed.name}"
