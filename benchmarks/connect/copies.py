"""The copies that are measured: what is created, and how far each is."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from benchmarks.connect.workers import Worker
from benchmarks.peers import Peer

STRING = "org.apache.kafka.connect.storage.StringConverter"
CONVERTERS = {"key.converter": STRING, "value.converter": STRING}
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
# A line becomes a row with one column.
ROWS = {
    "transforms": "row",
    "transforms.row.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.row.field": "line",
}
LINE_BYTES = 100
_DEADLINE_S = 300
_LOOK_EVERY_S = 0.005
_CHECK_EVERY_S = 2.0
_numbers = itertools.count(1)


class Place(NamedTuple):
    """A worker, its broker, and a folder for files."""

    worker: Worker
    broker: Peer
    folder: Path


def lines(count: int) -> Iterator[str]:
    """Numbered lines of 100 bytes, line end included."""
    for number in range(count):
        yield f"{number:012d} ".ljust(LINE_BYTES - 1, "x")


def input_file(folder: Path, count: int) -> Path:
    """A file of so many lines, written once."""
    path = folder / f"{count}.txt"
    if not path.exists():
        path.write_text("".join(f"{line}\n" for line in lines(count)))
    return path


@contextmanager
def topic(place: Place, records: int = 0) -> Iterator[str]:
    """A topic of one partition, with so many records in it."""
    with place.broker.topic(f"copied-{next(_numbers)}", 1, {}) as name:
        producer = Producer(
            {"bootstrap.servers": place.broker.bootstrap_servers, "linger.ms": 20, "log_level": 0}
        )
        for line in lines(records):
            while True:
                try:
                    producer.produce(name, line)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()
        yield name


def file_to_topic(place: Place, count: int) -> float:
    """Lines of a file into a topic, 1/s."""
    source = input_file(place.folder, count)
    with topic(place) as name:
        config = {"connector.class": FILE_SOURCE, "file": str(source), "topic": name}
        return _timed(place, [config], count, lambda: place.broker.end_offset(name))


def topic_to_file(place: Place, count: int) -> float:
    """A topic's records into a file, 1/s."""
    with topic(place, count) as name:
        target = place.folder / f"{name}.out"
        config = {"connector.class": FILE_SINK, "file": str(target), "topics": name}
        return _timed(place, [config], count, lambda: _lines_in(target))


def file_to_topic_to_file(place: Place, count: int) -> float:
    """Both at once, 1/s."""
    source = input_file(place.folder, count)
    with topic(place) as name:
        target = place.folder / f"{name}.out"
        configs = [
            {"connector.class": FILE_SINK, "file": str(target), "topics": name},
            {"connector.class": FILE_SOURCE, "file": str(source), "topic": name},
        ]
        return _timed(place, configs, count, lambda: _lines_in(target), name)


def file_to_topic_to_parquet(place: Place, count: int) -> float:
    """Lines of a file through a topic into Parquet files, 1/s."""
    source = input_file(place.folder, count)
    with topic(place) as name:
        lake = place.folder / f"lake-{name}"
        configs = [
            {"connector.class": "LakeSink", "path": str(lake), "topics": name},
            {"connector.class": FILE_SOURCE, "file": str(source), "topic": name},
        ]
        return _timed(place, configs, count, _ParquetRows(lake).count, name)


def topic_to_postgres(database: str, user: str) -> Callable[[Place, int], float]:
    """A topic's records into a table of that database."""

    def measure(place: Place, count: int) -> float:
        from benchmarks.connect.postgres_rows import PostgresRows

        with topic(place, count) as name, PostgresRows(database, user, name) as rows:
            config = {
                "connector.class": "JdbcSink",
                "connection.url": database,
                "connection.user": user,
                "topics": name,
                "auto.create": "true",
                **ROWS,
            }
            rate = _timed(place, [config], count, rows.stored)
            if rows.count() != count:
                raise RuntimeError(f"{rows.count()} rows of {count} records")
            return rate

    return measure


class _ParquetRows:
    """Counts rows by the files' footers, each file once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, int] = {}

    def count(self) -> int:
        import pyarrow.parquet as parquet

        for path in self._folder.rglob("*.parquet"):
            if path not in self._known and not path.name.startswith((".", "_")):
                self._known[path] = parquet.read_metadata(path).num_rows
        return sum(self._known.values())


def _lines_in(path: Path) -> int:
    return path.stat().st_size // LINE_BYTES if path.exists() else 0


def _timed(
    place: Place,
    configs: list[dict[str, str]],
    count: int,
    progress: Callable[[], int],
    through: str | None = None,
) -> float:
    """Create connectors, and say how many records a second they copy."""
    named = {f"copy-{next(_numbers)}": config for config in configs}
    for name, config in named.items():
        place.worker.add(name, {"tasks.max": "1", **CONVERTERS, **config})
    try:
        begun = None if through is None else lambda: place.broker.end_offset(through)
        return rate(Watch(place.worker, list(named)), count, progress, begun)
    finally:
        for name in named:
            place.worker.remove(name)


def rate(
    watch: "Watch",
    count: int,
    progress: Callable[[], int],
    begun: Callable[[], int] | None = None,
) -> float:
    """Records a second between the first sight of some and the sight of all.

    Creating a connector takes either runtime a while, which is no part of its speed. Of a copy through
    a topic, the first sight is that of a record in the topic (`begun`): sinks show what they have in
    steps of very different size, and their own first sight would count the first step as nothing.
    """
    seen, since = watch.until(begun or progress, 1)
    if begun is not None:
        seen = 0
    elif seen >= count:  # as a whole: the time since it was asked for is all there is
        seen, since = 0, watch.began
    _, now = watch.until(progress, count)
    return (count - seen) / (now - since)


class Watch:
    """Looks again and again how far a copy is, and now and then whether a task has failed."""

    def __init__(self, worker: Worker, names: list[str]) -> None:
        self._worker = worker
        self._names = names
        self.began = time.monotonic()
        self._check_at = self.began + _CHECK_EVERY_S

    def until(self, progress: Callable[[], int], wanted: int) -> tuple[int, float]:
        """How far it was when it was that far, and when that was."""
        while True:
            done, now = progress(), time.monotonic()
            if done >= wanted:
                return done, now
            if now > self._check_at:
                for name in self._names:
                    self._worker.check(name)
                self._check_at = now + _CHECK_EVERY_S
            if now - self.began > _DEADLINE_S:
                raise TimeoutError(f"{done} of {wanted} records after {_DEADLINE_S} s")
            time.sleep(_LOOK_EVERY_S)
