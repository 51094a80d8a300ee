"""Memory against the number of keys: the same records with few and with many users."""

import random
from collections.abc import Callable, Iterator

import psutil

from benchmarks.pipelines.by_hand import count_by_hand
from benchmarks.pipelines.figures import Figure
from benchmarks.pipelines.stage import BEGINNING, MANY_KEYS, SCHEMA, Scale, Stage
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.definitions.view import View
from strom.pipelines.layers.compiled_views import compile_view
from strom.pipelines.layers.replay import begin_version
from strom.pipelines.layers.speed import SpeedLayer, SpeedTarget

_CHUNK = 50_000


def measure_memory(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """How much the heap holds after a stream of few users and after one of many."""
    few, many = f"users-{1_000}", f"users-{scale.memory_records}"
    for topic in (few, many):
        _fill(stage, topic, int(topic.rpartition("-")[2]), scale.memory_records)
    for name, work in (("strom", _by_strom), ("by hand", _by_hand)):
        work(stage, few)  # warm up
        before = _used_mb(stage, lambda work=work: work(stage, few))  # type: ignore[misc]
        after = _used_mb(stage, lambda work=work: work(stage, many))  # type: ignore[misc]
        yield Figure(f"memory after {1_000:,} keys, {name}", before, "MB")
        target = 64 if name == "strom" else None
        yield Figure(
            f"more after {scale.memory_records:,} keys, {name}",
            after - before,
            "MB",
            target,
            "less",
        )


def _by_strom(stage: Stage, topic: str) -> None:
    """The speed layer over all of a topic."""
    stream = Stream(topic, schema=SCHEMA, time="at")
    view = View(reads=stream, keys=MANY_KEYS.keys, measures=MANY_KEYS.measures, name="by_user")
    manifests = stage.manifests("memory")
    feed = compile_view(stage.spark, view, stage.folder)
    number = begin_version(stage.spark, manifests, feed, BEGINNING).number
    layer = SpeedLayer(
        stage.spark, stage.kafka, manifests, stream, group="bench", max_records=250_000
    )
    layer.targets = [SpeedTarget(feed, number)]
    while layer.step():
        pass


def _by_hand(stage: Stage, topic: str) -> None:
    count_by_hand(stage, topic, "user")


def _used_mb(stage: Stage, work: Callable[[], None]) -> float:
    """What is in use afterwards: the JVM's heap without garbage, and all that is outside of it."""
    work()
    jvm = stage.spark._jvm
    assert jvm is not None
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    heap, used = runtime.totalMemory(), runtime.totalMemory() - runtime.freeMemory()
    process = psutil.Process(int(jvm.ProcessHandle.current().pid()))
    return float(process.memory_info().rss - heap + used) / 1e6


def _fill(stage: Stage, topic: str, users: int, records: int) -> None:
    stage.kafka.create(topic, len(BEGINNING.next))
    chance = random.Random(2026)

    def clicks(first: int) -> list[bytes]:
        return [
            b'{"user":"user-%d","page":"/","ms":1,"at":"2026-11-15T08:00:%02d.000Z"}'
            % (chance.randrange(users), 59 * number // records)
            for number in range(first, min(first + _CHUNK, records))
        ]

    stage.send(topic, (clicks(first) for first in range(0, records, _CHUNK)))
