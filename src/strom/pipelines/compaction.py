"""Many small segments of the speed layer become few: merged, and put in their place in one step."""

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strom.pipelines.chain import Manifest, OutOfPlace, Segment, Version
from strom.pipelines.fold import ViewFold
from strom.pipelines.manifests import Manifests
from strom.pipelines.serving.connections import connect, parquet_source, quoted_text
from strom.pipelines.serving.statements import merge_statement

if TYPE_CHECKING:
    import duckdb

FAN_IN = 8
"""So many neighbouring segments of one level become one of the next."""


@dataclass(frozen=True)
class Run:
    """Neighbouring segments to be merged."""

    segments: tuple[Segment, ...]

    @property
    def level(self) -> int:
        """The level that the merged segment has."""
        return max(one.level for one in self.segments) + 1


def plan(version: Version, fan_in: int = FAN_IN) -> Run | None:
    """The first run of neighbours that is long enough; never across a position that a batch needs."""
    run: list[Segment] = []
    for segment in version.segments:
        fits = run and segment.level == run[-1].level and run[-1].end != version.pinned
        if segment.layer != "speed" or not fits:
            run = []
        if segment.layer == "speed":
            run.append(segment)
        if len(run) == fan_in:
            return Run(tuple(run))
    return None


class Compactor:
    """Merges segments, with a DuckDB connection of its own."""

    def __init__(self, manifests: Manifests) -> None:
        self._manifests = manifests
        self._connection: duckdb.DuckDBPyConnection | None = None

    def compact(self, fold: ViewFold, number: int) -> bool:
        """Merge one run of a version's segments, if there is one; OutOfPlace if that came too late."""
        name = fold.view.name
        version = self._manifests.existing(name).version(number)
        run = plan(version)
        if run is None:
            return False
        merged = Segment(
            run.segments[0].start,
            run.segments[-1].end,
            self._merge(fold, version, run),
            level=run.level,
            written_ms=run.segments[-1].written_ms,
        )

        def publish(manifest: Manifest) -> Manifest:
            version = manifest.version(number)
            if version.pinned in [segment.end for segment in run.segments[:-1]]:
                raise OutOfPlace(f"a batch has begun that needs {version.pinned}")
            return manifest.with_version(version.spliced(merged))

        self._manifests.change(name, fold.view.stream.topic, publish)
        return True

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _merge(self, fold: ViewFold, version: Version, run: Run) -> tuple[str, ...]:
        folder = self._manifests.view_folder(fold.view.name)
        files = [file for segment in run.segments for file in segment.files]
        if not files:
            return ()
        if self._connection is None:
            self._connection = connect()
        connection = self._connection
        source = parquet_source([str(folder / file) for file in [version.identity, *files]])
        described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        statement = merge_statement(fold, source, {column: kind for column, kind, *_ in described})
        target = f"v{version.number}/speed/{uuid.uuid4().hex}.parquet"
        connection.execute(f"COPY ({statement}) TO {quoted_text(folder / target)} (FORMAT parquet)")
        return (target,)
