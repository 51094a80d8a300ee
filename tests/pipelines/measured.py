"""A project as metrics see it, without Spark: a runner's state at one moment."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from strom.pipelines.layers.speed import SpeedProgress
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.views.manifests import Manifest, Version, ViewSegment

VERSION = Version(
    number=2,
    fingerprint="",
    definition="",
    output=(),
    base=TopicOffsets((0,)),
    created_ms=0,
    identity="identity.parquet",
    segments=(
        ViewSegment(TopicOffsets((0,)), TopicOffsets((50,)), ("a",), "batch", written_ms=1_000),
        ViewSegment(TopicOffsets((50,)), TopicOffsets((60,)), ("b",)),
    ),
    skipped=((0, 7),),
)
MANIFEST = Manifest("pages", "clicks", 2, 1, (replace(VERSION, number=1), VERSION))


def measured_runner(**changes: Any) -> Any:
    """A runner of one view, `pages`, that is 40 records behind its topic `clicks`."""
    progress = SpeedProgress(
        records=60, batches=3, dead_letters=1, lag=40, lags={"pages": 40}, seconds=0.5
    )
    progress.total_seconds = 2.0
    progress.completeness.observe_end(0.0, 60, {"pages": 0})
    progress.completeness.observe_end(10.0, 100, {"pages": 40})
    target = SimpleNamespace(feed=SimpleNamespace(name="pages"), number=2)
    state = {
        "layers": {"clicks": SimpleNamespace(progress=progress, all_targets=[target])},
        "project": SimpleNamespace(manifests=SimpleNamespace(read={"pages": MANIFEST}.get)),
        "compactions": Counter({"pages": 5}),
        "outages": {},
        "set_aside": dict,
    }
    return SimpleNamespace(**state | changes)
