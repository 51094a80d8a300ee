"""Merges many small segments of the speed layer into few, which replace them atomically."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from strom.pipelines.serving.connections import connect, parquet_source, quoted_text
from strom.pipelines.serving.statements import merge_statement
from strom.pipelines.views.fold import ViewFold
from strom.pipelines.views.manifests import ChainConflict, Manifest, Manifests, Version, ViewSegment

if TYPE_CHECKING:
    import duckdb

FAN_IN = 8
"""The number of neighbouring segments of one level that become one of the next."""
MAX_FILES = 256
"""The maximum number of files merged at once, if a backlog of segments is longer than FAN_IN."""
MAX_RUNS = 16
"""The number of runs of a backlog per change of the manifest, whose cost grows with the length of the
chain."""


@dataclass(frozen=True)
class Run:
    """Neighbouring segments to be merged."""

    segments: tuple[ViewSegment, ...]

    @property
    def level(self) -> int:
        """The level of the merged segment."""
        return self.segments[0].level + 1


def plan(version: Version, fan_in: int = FAN_IN) -> list[Run]:
    """The first runs of neighbours that are long enough.

    None across a position that a batch has pinned.
    """
    runs = (run for run in _neighbours(version, fan_in) if len(_with_states(run)) >= fan_in)
    return [Run(tuple(run)) for run in islice(runs, MAX_RUNS)]


def _neighbours(version: Version, fan_in: int) -> Iterator[list[ViewSegment]]:
    """Adjacent speed segments of one level, with the empty ones between them.

    None starts or ends with an empty segment: the speed layer may still extend it.
    """
    run: list[ViewSegment] = []

    def fits(segment: ViewSegment) -> bool:
        if segment.layer != "speed" or run[-1].end == version.pinned:
            return False
        if segment.is_empty:
            return True
        files = sum(len(one.files) for one in (*run, segment))
        is_small = files <= MAX_FILES or len(_with_states(run)) < fan_in
        return segment.level == run[0].level and is_small

    for segment in version.segments:
        if run and not fits(segment):
            yield _without_empty_end(run)
            run = []
        if run or (segment.layer == "speed" and segment.files):
            run.append(segment)
    yield _without_empty_end(run)


def _without_empty_end(run: list[ViewSegment]) -> list[ViewSegment]:
    while run and run[-1].is_empty:
        run = run[:-1]
    return run


def _with_states(run: Sequence[ViewSegment]) -> list[ViewSegment]:
    return [segment for segment in run if segment.files]


class Compactor:
    """Merges segments with its own DuckDB connection."""

    def __init__(self, manifests: Manifests) -> None:
        self._manifests = manifests
        self._connection: duckdb.DuckDBPyConnection | None = None

    def compact(self, fold: ViewFold, number: int) -> bool:
        """Merge runs of a version's segments, if there are any.

        ChainConflict if the chain has changed.
        """
        name, topic = fold.view.name, fold.view.stream.topic
        manifest = self._manifests.read(name)
        if manifest is None:  # dropped
            return False
        version = manifest.version(number)
        if version.collapsed() is not version:
            # A chain of an earlier release may have an empty segment per micro-batch.
            collapsed = self._manifests.change(
                name,
                topic,
                lambda manifest: manifest.with_version(manifest.version(number).collapsed()),
            )
            version = collapsed.version(number)
        merged = [(run, self._merged(fold, version, run)) for run in plan(version)]
        if not merged:
            return False

        def publish(manifest: Manifest) -> Manifest:
            version = manifest.version(number)
            for run, segment in merged:
                if version.pinned in [one.end for one in run.segments[:-1]]:
                    raise ChainConflict(f"a batch has begun that needs {version.pinned}")
                version = version.spliced(segment)
            return manifest.with_version(version)

        self._manifests.change(name, topic, publish)
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _merged(self, fold: ViewFold, version: Version, run: Run) -> ViewSegment:
        """One segment for a run, in a file that is not listed yet."""
        return ViewSegment(
            run.segments[0].start,
            run.segments[-1].end,
            self._merge(fold, version, run),
            level=run.level,
            written_ms=run.segments[-1].written_ms,
        )

    def _merge(self, fold: ViewFold, version: Version, run: Run) -> tuple[str, ...]:
        import duckdb

        folder = self._manifests.view_folder(fold.view.name)
        files = [version.identity, *(file for one in run.segments for file in one.files)]
        if self._connection is None:
            self._connection = connect()
        connection = self._connection
        source = parquet_source([str(folder / file) for file in files])
        target = f"v{version.number}/speed/{uuid.uuid4().hex}.parquet"
        try:
            described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            types = {column: kind for column, kind, *_ in described}
            statement = merge_statement(fold, source, types)
            connection.execute(
                f"COPY ({statement}) TO {quoted_text(folder / target)} (FORMAT parquet)"
            )
        except duckdb.IOException as error:
            if all((folder / file).exists() for file in files):
                raise
            raise ChainConflict(f"files of {fold.view.name} have gone: {error}") from None
        return (target,)
