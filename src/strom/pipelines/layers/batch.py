"""The batch layer.

Recomputes a view from the master dataset, up to a cut, and publishes it atomically.
"""

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers.compiled_views import CompiledView
from strom.pipelines.layers.master import ArchiveSnapshot, MasterDataset
from strom.pipelines.layers.skipping import Piece, SegmentWriter
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.spark.parsing import parse
from strom.pipelines.spark.reading import cores_of, read_master
from strom.pipelines.views.manifests import ChainConflict, Manifest, Manifests, Version, ViewSegment
from strom.supervision.file_lock import locked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class ArchiveTooShort(UserError):
    """The archive lacks records that a view holds: a batch of it would lose them."""


@dataclass(frozen=True)
class Published:
    """The result of a batch."""

    version: int
    records: int
    cut: TopicOffsets


def run_batch(
    spark: "SparkSession",
    manifests: Manifests,
    master: MasterDataset,
    feed: CompiledView,
    number: int,
    kafka: KafkaLog,
    *,
    beside_speed: bool = False,
) -> Published:
    """Compute the states of all archived records, and replace the older ones.

    A failure changes nothing. Beside a running speed layer, a batch ends at most at that layer's
    position: by the time the batch is done, the speed layer would have passed its end. Records that the
    view cannot compute, and has not skipped before, go to the dead letters in `kafka`.
    """
    # One batch at a time across all processes: each pins its end position.
    with locked(manifests.view_folder(feed.name) / "batch.lock"):
        if not beside_speed:
            try:
                return _run_batch(spark, manifests, master, feed, number, kafka, may_lead=True)
            except ChainConflict:
                log.info("a speed layer has passed the end of a batch of %s", feed.name)
        return _run_batch(spark, manifests, master, feed, number, kafka, may_lead=False)


def _run_batch(
    spark: "SparkSession",
    manifests: Manifests,
    master: MasterDataset,
    feed: CompiledView,
    number: int,
    kafka: KafkaLog,
    *,
    may_lead: bool,
) -> Published:
    topic = feed.view.stream.topic
    cut = _pin(manifests, master, feed, number, may_lead=may_lead)
    try:
        base = manifests.existing(feed.name).version(number).base
        archived = master.snapshot()
        _check_complete(master, archived)
        raw = read_master(spark, list(archived.files), base, cut)
        if not may_lead:  # one core is left to the speed layer: tasks cannot be interrupted
            raw = raw.coalesce(max(1, cores_of(spark) - 1))
        piece = Piece(raw, parse(feed.view.stream, raw), base, cut)
        segment = SegmentWriter(manifests, kafka, feed, number, layer="batch").write(piece)
        manifests.change(feed.name, topic, lambda manifest: _published(manifest, number, segment))
    except BaseException:
        manifests.change(feed.name, topic, lambda manifest: _unpinned(manifest, number))
        raise
    return Published(number, segment.records, cut)


def cut_of(version: Version, archived: TopicOffsets, *, may_lead: bool) -> TopicOffsets:
    """The latest position up to which everything is archived and at which the chain can be cut.

    A leading cut is ahead of the chain: it is allowed only while no other writer extends the chain.
    """
    if may_lead and version.position <= archived:
        return archived
    reached = [boundary for boundary in version.boundaries if boundary <= archived]
    # A version that starts ahead of the archive, such as one replayed from a later time, has no cut yet.
    return reached[-1] if reached else version.base


def _pin(
    manifests: Manifests, master: MasterDataset, feed: CompiledView, number: int, *, may_lead: bool
) -> TopicOffsets:
    archived, first = master.position(), master.base()
    cuts: list[TopicOffsets] = []

    def pin(manifest: Manifest) -> Manifest:
        version = manifest.version(number)
        if not first <= version.base:
            raise ArchiveTooShort(
                f"The archive of {master.topic} begins at {first}, later than version {number} of view "
                f"{feed.name}, at {version.base}: a batch would lose what lies between."
            )
        cuts.append(cut_of(version, archived, may_lead=may_lead))
        return manifest.with_version(replace(version, pinned=cuts[-1]))

    manifests.change(feed.name, master.topic, pin)
    return cuts[-1]


def _check_complete(master: MasterDataset, archived: ArchiveSnapshot) -> None:
    """Raise ArchiveTooShort if files contain less than was archived.

    Spark reads what exists, or fails.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    remedy = (
        f"A batch would lose records. Restore it, or move the folder {master.path} away, and `strom run` "
        "archives again what the log still holds."
    )
    # Spark writes a file even for no records: strom 0.1.0 stored positions without one if the workers did
    # not share the data folder.
    has_read = archived.position != archived.base
    if has_read and not archived.files and not master.was_compacted():
        raise ArchiveTooShort(
            f"The archive of {master.topic} lists no file, although it has read the log from "
            f"{archived.base} to {archived.position}. {remedy}"
        )
    for file, records in archived.files.items():
        try:
            found = pq.read_metadata(file).num_rows
        except (FileNotFoundError, pa.ArrowInvalid):  # missing or truncated
            found = 0
        if records is not None and found < records:
            raise ArchiveTooShort(
                f"The archive of {master.topic} noted {records} records in {file}, where {found} are "
                f"found. {remedy}"
            )


def _published(manifest: Manifest, number: int, segment: ViewSegment) -> Manifest:
    version = manifest.version(number).spliced(segment)
    return manifest.with_version(replace(version, pinned=None))


def _unpinned(manifest: Manifest, number: int) -> Manifest:
    return manifest.with_version(replace(manifest.version(number), pinned=None))
