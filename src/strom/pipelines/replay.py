"""Kappa: the same fold once more, from some place in the log on, into a new version; then a switch."""

import math
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.chain import Manifest, Segment, Version
from strom.pipelines.definitions.view import View
from strom.pipelines.feeds import Feed, append_segment, feed_of
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.manifests import Manifests
from strom.pipelines.offsets import Offsets
from strom.pipelines.same_topic import check_same_topic, replay_again
from strom.pipelines.skipping import Piece, write_computable
from strom.pipelines.spark.parsing import parse
from strom.pipelines.spark.reading import cores_of, read_log
from strom.pipelines.versions import new_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK = 5_000_000
"""Records per step: after a crash, no more than these are read again."""
PART = 500_000
"""Records per job."""
NEAR = 1_000
"""A version that lacks fewer records than these has caught up."""


@dataclass(frozen=True)
class Step:
    """How far a replay is."""

    version: int
    done: int
    total: int
    seconds: float


def replay(
    spark: "SparkSession",
    kafka: KafkaLog,
    manifests: Manifests,
    view: View,
    folder: Path,
    *,
    start: Offsets,
    group: str,
    chunk: int = CHUNK,
    report: Callable[[Step], None] = lambda step: None,
    keep_inactive: bool = False,
) -> int:
    """Compute a new version from `start` on, and switch to it when it has caught up; its number."""
    feed = feed_of(spark, view, folder)
    incarnation = kafka.incarnation(view.stream.topic)
    number = begin_version(spark, manifests, feed, start, incarnation).number
    catch_up(
        spark,
        kafka,
        manifests,
        feed,
        number,
        group=f"{group}.v{number}",
        chunk=chunk,
        report=report,
    )
    if not keep_inactive:
        switch(manifests, feed, number)
    return number


def begin_version(
    spark: "SparkSession", manifests: Manifests, feed: Feed, base: Offsets, incarnation: int = 0
) -> Version:
    """A new, empty version that begins at a position of a topic, or of one yet to be seen."""
    identity = feed.identity(spark).toArrow()
    return new_version(manifests, feed.view, base, identity, feed.columns, incarnation=incarnation)


def catch_up(
    spark: "SparkSession",
    kafka: KafkaLog,
    manifests: Manifests,
    feed: Feed,
    number: int,
    *,
    group: str,
    chunk: int = CHUNK,
    report: Callable[[Step], None] = lambda step: None,
) -> None:
    """Fold the log into a version until it is near the end."""
    topic = feed.view.stream.topic
    began = time.perf_counter()
    first = position = manifests.existing(feed.name).version(number).position
    while True:
        end = kafka.ends(topic)
        left = end - position
        report(Step(number, position - first, end - first, time.perf_counter() - began))
        if position == end:
            return
        check_same_topic(kafka, manifests, feed.name, number)
        kafka.check_complete(topic, position, f"View {feed.name}", replay_again(feed.name))
        until = end.at_most(position, chunk)
        segment = _computed(spark, kafka, manifests, feed, number, position, until, group)
        position = append_segment(manifests, feed, number, segment).position
        if left < NEAR and until == end:
            report(Step(number, position - first, end - first, time.perf_counter() - began))
            return


def _computed(
    spark: "SparkSession",
    kafka: KafkaLog,
    manifests: Manifests,
    feed: Feed,
    number: int,
    start: Offsets,
    end: Offsets,
    group: str,
) -> Segment:
    """The states between two positions, by many small jobs of one task each: nothing is shuffled.

    A key may have a state in each of them; whoever reads merges.
    """

    def part(ends: tuple[Offsets, Offsets]) -> Segment:
        raw = read_log(
            spark,
            kafka.servers,
            feed.view.stream.topic,
            *ends,
            group=group,
            client_settings=kafka.java_settings,
        )
        piece = Piece(raw, parse(feed.view.stream, raw).coalesce(1), *ends)
        return write_computable(manifests, kafka, feed, number, piece)

    bounds = start.towards(end, max(1, math.ceil((end - start) / PART)))
    # One more than cores: while jobs run, the next is planned.
    with ThreadPoolExecutor(cores_of(spark) + 1, thread_name_prefix="replay") as pool:
        parts = list(pool.map(part, pairwise(bounds)))
    files = tuple(file for one in parts for file in one.files)
    return replace(parts[-1], start=start, files=files)


def switch(manifests: Manifests, feed: Feed, number: int) -> Manifest:
    """Let queries see a version; the one before stays, for a rollback."""
    topic = feed.view.stream.topic
    return manifests.change(feed.name, topic, lambda manifest: manifest.switched_to(number))


def starting_point(kafka: KafkaLog, topic: str, text: str) -> Offsets:
    """`earliest`, a time (2026-11-15T08:00Z), or an offset, which then holds in every partition."""
    starts = kafka.starts(topic)
    if text == "earliest":
        return starts
    if re.fullmatch(r"\d+", text):
        ends = kafka.ends(topic)
        wanted = int(text)
        return Offsets(
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
