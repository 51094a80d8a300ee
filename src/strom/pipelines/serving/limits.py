"""What one query may use, and the results of queries: in files, so that a result needs little memory.

A result is complete before its first byte is sent. So a query that exceeds a limit ends with an error
that says so, never with a part of its result, and a client that reads slowly keeps no query running.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Self

from strom.model.errors import StromError, UserError
from strom.pipelines.settings import ProjectSettings

if TYPE_CHECKING:
    import pyarrow as pa

MIB = 1024 * 1024
BATCH_ROWS = 256
"""Rows that are fetched at a time: few, because Arrow's memory is not within DuckDB's limit."""
_IN_MEMORY = MIB
_RESULTS = 4
"""How many of the largest results may exist at the same time, or more smaller ones."""


class ResultsFull(StromError):
    """The results of other queries take all space that there is for results."""


@dataclass(frozen=True)
class QueryLimits:
    """The limits of one query, and of the memory and the disk that all queries share."""

    rows: int = ProjectSettings.serving_max_rows
    result_bytes: int = ProjectSettings.serving_max_result_mb * MIB
    seconds: float = ProjectSettings.serving_timeout_s
    memory_bytes: int = ProjectSettings.serving_memory_mb * MIB
    spill_bytes: int = ProjectSettings.serving_max_spill_mb * MIB

    @classmethod
    def of(cls, settings: ProjectSettings) -> Self:
        return cls(
            settings.serving_max_rows,
            settings.serving_max_result_mb * MIB,
            settings.serving_timeout_s,
            settings.serving_memory_mb * MIB,
            settings.serving_max_spill_mb * MIB,
        )

    def count_rows(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """The same batches; UserError when they have too many rows."""
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            if rows > self.rows:
                raise UserError(
                    f"The result has more than {self.rows} rows, the limit that serving.max_rows sets. "
                    "Add a LIMIT or a condition to the query."
                )
            yield batch

    def timed_out(self) -> UserError:
        return UserError(
            f"The query took longer than {self.seconds:g} seconds, the limit that serving.timeout sets."
        )

    def out_of_memory(self) -> UserError:
        return UserError(
            f"The query needs more than {self.memory_bytes // MIB} MiB of memory and "
            f"{self.spill_bytes // MIB} MiB of disk, the limits that serving.memory_mb and "
            "serving.max_spill_mb set for all queries together."
        )


class ResultFiles:
    """The encoded results that have not been sent yet. Thread-safe."""

    def __init__(self, folder: Path, limits: QueryLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._lock = threading.Lock()
        self._held = 0

    def write(self, pieces: Iterable[bytes]) -> "ResultFile":
        """Write a result; UserError if it is too large, ResultsFull if others are."""
        result = ResultFile(self, self._folder)
        try:
            for piece in pieces:
                if result.size + len(piece) > self._limits.result_bytes:
                    raise UserError(
                        f"The result exceeds {self._limits.result_bytes} bytes, the limit that "
                        "serving.max_result_mb sets. Select fewer rows or columns."
                    )
                self._hold(len(piece))
                result.add(piece)
        except BaseException:
            result.close()
            raise
        return result

    def release(self, size: int) -> None:
        self._hold(-size)

    def _hold(self, more: int) -> None:
        with self._lock:
            if more > 0 and self._held + more > _RESULTS * self._limits.result_bytes:
                raise ResultsFull(
                    f"Results of other queries hold {self._held} bytes at present. Retry later."
                )
            self._held += more


class ResultFile:
    """One result: in memory while it is small, else in a file without a name."""

    def __init__(self, files: ResultFiles, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._files = files
        self._file = SpooledTemporaryFile(_IN_MEMORY, "w+b", dir=str(folder))  # noqa: SIM115
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self._file.write(piece)

    def pieces(self) -> Iterator[bytes]:
        self._file.seek(0)
        while piece := self._file.read(64 * 1024):
            yield piece

    def close(self) -> None:
        self._file.close()
        self._files.release(self.size)
        self.size = 0
