"""Compiles one version of a view, and writes its states to files."""

import math
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strom.pipelines.definitions.stream import Stream
from strom.pipelines.definitions.view import View
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.spark.folding import bind_with_spark, partial
from strom.pipelines.spark.parsing import malformed_rows, parse, valid_rows
from strom.pipelines.spark.preparing import prepared
from strom.pipelines.spark.reading import RAW_SCHEMA
from strom.pipelines.spark.row_level import unread_rows
from strom.pipelines.spark.valid_text import text_repairs, with_valid_text
from strom.pipelines.spark.writing import write_rows
from strom.pipelines.views.fold import ViewFold
from strom.pipelines.views.manifests import Layer, Manifest, Manifests, Version, ViewSegment

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

RECORDS_PER_FILE = 100_000
"""The number of records per file of a micro-batch of a view without measures."""

States = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True)
class CompiledView:
    """A version of a view that can process records."""

    view: View
    fold: ViewFold
    states: States
    """Computes states from parsed records."""
    columns: dict[str, str]

    @property
    def name(self) -> str:
        return self.view.name

    def identity(self, spark: "SparkSession") -> "DataFrame":
        """A frame without states that has all columns."""
        # By this condition, Spark's optimizer knows that groups are empty, and runs no job for them.
        no_records = spark.createDataFrame([], RAW_SCHEMA).where("false")
        return self.states(parse(self.view.stream, no_records))


def compile_view(spark: "SparkSession", view: View, folder: Path) -> CompiledView:
    """Bind a view to the types that Spark reports; DefinitionError with its location if it is invalid."""
    fold, columns = bind_with_spark(spark, view, folder)
    source = unread_rows(spark, view.stream).rows
    rows = prepared(view, source, folder)
    of_rows = text_repairs(source, rows)
    # Measures may be expressions that produce strings, too.
    of_states = {} if view.appends else text_repairs(source, partial(fold, rows))

    def states(parsed: "DataFrame") -> "DataFrame":
        rows = with_valid_text(prepared(view, valid_rows(parsed), folder), of_rows)
        return with_valid_text(partial(fold, rows), of_states)

    return CompiledView(view, fold, states, columns)


def dead_letter_view(stream: Stream) -> View:
    """The view of dead letters: each malformed record exactly once, as a row."""
    return View(reads=stream, where="false", name=stream.dead_letter_view, place=stream.place)


def dead_letter_feed(stream: Stream) -> CompiledView:
    """The compiled view of a stream's dead letters."""
    view = dead_letter_view(stream)
    columns = {
        "_partition": "int",
        "_offset": "bigint",
        "_timestamp": "timestamp",
        "_key": "binary",
    }
    return CompiledView(
        view, ViewFold(view, {}), malformed_rows, columns | {"value": "binary", "reason": "string"}
    )


def write_segment(
    manifests: Manifests,
    feed: CompiledView,
    number: int,
    parsed: "DataFrame",
    start: TopicOffsets,
    end: TopicOffsets,
    *,
    layer: Layer = "speed",
    few: bool = False,
) -> ViewSegment:
    """Compute and write the states of records between two positions, without listing them.

    `few` records are folded in one task without a shuffle, and written by this process, which saves two
    jobs. Rows of a view without measures may exceed its memory: tasks write them, into few files.
    """
    if few and not feed.view.appends:
        small = feed.states(parsed.coalesce(1)).toArrow()
        return write_small_segment(manifests, feed, number, small, start, end)
    states = feed.states(parsed)
    if few:
        states = states.coalesce(max(1, math.ceil((end - start) / RECORDS_PER_FILE)))
    folder = manifests.version_folder(feed.name, number) / layer / uuid.uuid4().hex
    files = write_rows(states, folder, data=manifests.folder.parent)
    return _listed(manifests, feed, list(files), start, end, layer)


def write_small_segment(
    manifests: Manifests,
    feed: CompiledView,
    number: int,
    states: "pa.Table",
    start: TopicOffsets,
    end: TopicOffsets,
) -> ViewSegment:
    """Write states that are already in memory."""
    import pyarrow.parquet as pq

    folder = manifests.version_folder(feed.name, number) / "speed"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid.uuid4().hex}.parquet"
    pq.write_table(states, path)
    return _listed(manifests, feed, [path], start, end, "speed")


def _listed(
    manifests: Manifests,
    feed: CompiledView,
    files: list[Path],
    start: TopicOffsets,
    end: TopicOffsets,
    layer: Layer,
) -> ViewSegment:
    folder = manifests.view_folder(feed.name)
    relative = tuple(str(path.relative_to(folder)) for path in files)
    return ViewSegment(start, end, relative, layer, written_ms=time.time_ns() // 1_000_000)


def append_segment(
    manifests: Manifests, feed: CompiledView, number: int, segment: ViewSegment
) -> Version:
    """Append a segment to the chain; ChainConflict if the chain has moved on."""

    def append(manifest: Manifest) -> Manifest:
        return manifest.with_version(manifest.version(number).appended(segment))

    return manifests.change(feed.name, feed.view.stream.topic, append).version(number)
