"""Over what is in the log already: replay, and batches as the history grows."""

import time
from collections.abc import Iterator

from benchmarks.pipelines.by_hand import count_by_hand
from benchmarks.pipelines.figures import Figure
from benchmarks.pipelines.stage import (
    BEGINNING,
    FEW_KEYS,
    MANY_KEYS,
    PAGE_MINUTES,
    TOPIC,
    Scale,
    Stage,
)
from strom.pipelines.definitions.view import View
from strom.pipelines.layers.archiving import Archiver
from strom.pipelines.layers.batch import run_batch
from strom.pipelines.layers.compiled_views import compile_view
from strom.pipelines.layers.master import MasterDataset
from strom.pipelines.layers.replay import begin_version, replay

# View, target of its replay, target beside the one by hand.
_REPLAYS = ((FEW_KEYS, 300_000, 1.0), (MANY_KEYS, 300_000, 3.0), (PAGE_MINUTES, 300_000, None))


def measure_replay(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Replay over a history, beside Structured Streaming over the same."""
    stage.fill(scale.history)
    for view, target, beside in _REPLAYS:
        replayed(stage, view)  # warm up
        seconds = replayed(stage, view)
        yield Figure(
            f"replay of {scale.history:,} records, {view.name}",
            scale.history / seconds,
            "/s",
            target,
        )
        if beside is not None:
            count_by_hand(stage, TOPIC, view.key_names[1])
            by_hand = count_by_hand(stage, TOPIC, view.key_names[1])
            yield Figure(f"the same by hand, {view.name}", scale.history / by_hand, "/s")
            yield Figure(f"beside it, {view.name}", by_hand / seconds, "×", beside)


def measure_batch(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """What a batch costs as the history grows."""
    stage.fill(scale.history)
    manifests = stage.manifests("batch")
    master = MasterDataset(stage.folder / "master", TOPIC)
    master.create(BEGINNING)
    archiver = Archiver(stage.spark, stage.kafka, "bench")
    feed = compile_view(stage.spark, PAGE_MINUTES, stage.folder)
    version = begin_version(stage.spark, manifests, feed, BEGINNING)
    quarter = scale.history // 4
    for _ in range(4):
        began = time.perf_counter()
        archived = 0
        while archived < quarter and (
            taken := archiver.archive(master, max_records=quarter - archived)
        ):
            archived += taken
        archive_s = time.perf_counter() - began
        began = time.perf_counter()
        done = run_batch(stage.spark, manifests, master, feed, version.number, stage.kafka)
        seconds = time.perf_counter() - began
        yield Figure(f"archiving {archived:,} records", archived / archive_s, "/s")
        yield Figure(f"a batch over {done.records:,} records", seconds, "s")


def replayed(stage: Stage, view: View) -> float:
    """Seconds of one replay from the beginning, into a new place."""
    manifests = stage.manifests("replay")
    began = time.perf_counter()
    replay(stage.spark, stage.kafka, manifests, view, stage.folder, start=BEGINNING, group="bench")
    return time.perf_counter() - began
