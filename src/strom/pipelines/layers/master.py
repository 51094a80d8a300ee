"""The master dataset: every raw record, exactly once, in a Delta table per topic.

Spark writes the records of a range of offsets into Parquet files beside the table, and one commit to
the table's log adds the files together with the new position. So position and records are always
consistent, even after a crash: files without a commit belong to no table.
"""

import json
import logging
import shutil
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.offsets import TopicOffsets
from strom.supervision.file_lock import locked

if TYPE_CHECKING:
    from deltalake import DeltaTable, Transaction

log = logging.getLogger(__name__)

SMALL_FILES, SMALL_BYTES = 64, 64 << 20
"""The number of small files that triggers compaction: a batch opens every one of them."""
LATEST_COMMITS = 10
"""The target size of compacted files."""
READERS_HOURS = 24
"""The retention of replaced files: a batch that started before a compaction has ended by then."""


@dataclass(frozen=True)
class ArchiveSnapshot:
    """The content of an archive at one moment."""

    files: dict[str, int | None]
    """The Parquet files with their numbers of records; None if the number was not stored."""
    base: TopicOffsets
    position: TopicOffsets


class MasterDataset:
    """The archived records of one topic."""

    def __init__(self, folder: Path, topic: str) -> None:
        self.topic = topic
        self.path = folder / topic

    def exists(self) -> bool:
        """Whether anything was ever archived."""
        return (self.path / "_delta_log").exists()

    def base(self) -> TopicOffsets:
        """The position at which the archive starts."""
        return _offsets(self._table(), "base")

    def position(self) -> TopicOffsets:
        """The position up to which records are archived."""
        return _offsets(self._table(), "next")

    def incarnation(self) -> int:
        """Identifies the archived topic among those of its name; 0 if unknown."""
        return self._table().transaction_version("strom/incarnation") or 0

    def files(self) -> list[str]:
        """The Parquet files of the records."""
        return list(self._counted_files(self._table()))

    def snapshot(self) -> ArchiveSnapshot:
        """A consistent snapshot for a batch."""
        table = self._table()
        return ArchiveSnapshot(
            self._counted_files(table), _offsets(table, "base"), _offsets(table, "next")
        )

    def was_compacted(self) -> bool:
        """Whether files were rewritten recently: empty ones are gone then."""
        commits = self._table().history(LATEST_COMMITS)
        return any(commit.get("operation") == "OPTIMIZE" for commit in commits)

    def create(self, base: TopicOffsets, incarnation: int = 0) -> None:
        """Create an archive, unless it exists."""
        import pyarrow as pa
        from deltalake import CommitProperties, DeltaTable

        if self.exists():
            return
        self.path.mkdir(parents=True, exist_ok=True)
        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        schema = pa.schema(
            [
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", pa.timestamp("us", "UTC")),
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", pa.list_(header)),
            ]
        )
        marks = [*self._marks("base", base), *self._marks("next", base)]
        marks += self._incarnation_mark(incarnation)
        DeltaTable.create(
            str(self.path),
            schema,
            name=self.topic,
            description=f"all records of topic {self.topic}, as they were written",
            commit_properties=CommitProperties(app_transactions=marks),
        )

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock of writers: Delta's commits do not reject a second writer of the same records."""
        return locked(self.path.with_suffix(".lock"))

    def sweep(self) -> int:
        """Remove folders of files that no commit lists: those of crashes."""
        with self.locked():
            listed = {Path(file).parent.name for file in self.files()}
            left = [path for path in self.path.glob("records-*") if path.name not in listed]
            for path in left:
                shutil.rmtree(path, ignore_errors=True)
            return len(left)

    def compact(self) -> bool:
        """Rewrite many small files into few, if there are many; returns whether it did.

        Readers can use the small files for another day, or until the next start. It is maintenance: if
        it fails, as on a disk without space for a second copy, the archive is unchanged.
        """
        from deltalake.exceptions import DeltaError

        with self.locked():
            small = [file for file in self.files() if Path(file).stat().st_size < SMALL_BYTES]
            if len(small) < SMALL_FILES:
                return False
            table = self._table()
            try:
                table.optimize.compact(max_concurrent_tasks=1)  # the other cores are for the views
                table.vacuum(READERS_HOURS, dry_run=False, enforce_retention_duration=False)
            except (OSError, DeltaError) as reason:
                log.warning("small files of %s stay as they are: %s", self.path, reason)
                return False
        return True

    def add(self, files: Mapping[Path, int], end: TopicOffsets, incarnation: int) -> None:
        """Commit files with their numbers of records, together with the position that they reach."""
        from deltalake import CommitProperties
        from deltalake.transaction import AddAction, RemoveAction

        now = time.time_ns() // 1_000_000
        added: list[AddAction | RemoveAction] = [
            AddAction(
                path.relative_to(self.path).as_posix(),
                path.stat().st_size,
                {},
                now,
                True,
                json.dumps({"numRecords": rows}),
            )
            for path, rows in files.items()
        ]
        marks = [*self._marks("next", end), *self._incarnation_mark(incarnation)]
        table = self._table()
        table.create_write_transaction(
            added,
            "append",
            table.schema(),
            commit_properties=CommitProperties(app_transactions=marks),
        )

    def _table(self) -> "DeltaTable":
        from deltalake import DeltaTable

        if not self.exists():
            raise UserError(
                f"Nothing of topic {self.topic} was archived yet. Start with: strom run"
            )
        return DeltaTable(str(self.path))

    def _marks(self, which: str, offsets: TopicOffsets) -> "list[Transaction]":
        """Delta's application transactions: named numbers that are stored with the commit."""
        from deltalake import Transaction

        marks = [Transaction(f"strom/{which}/{p}", offset) for p, offset in enumerate(offsets.next)]
        return [Transaction(f"strom/{which}", len(offsets.next)), *marks]

    def _incarnation_mark(self, incarnation: int) -> "list[Transaction]":
        from deltalake import Transaction

        return [Transaction("strom/incarnation", incarnation)] if incarnation else []

    def _counted_files(self, table: "DeltaTable") -> dict[str, int | None]:
        added = table.get_add_actions(flatten=True)
        # Plain paths; those of `file_uris` are percent-encoded.
        paths = [str(self.path / path) for path in added["path"].to_pylist()]
        return dict(zip(paths, added["num_records"].to_pylist(), strict=True))


def _offsets(table: "DeltaTable", which: str) -> TopicOffsets:
    partitions = table.transaction_version(f"strom/{which}") or 0
    return TopicOffsets(
        tuple(table.transaction_version(f"strom/{which}/{p}") or 0 for p in range(partitions))
    )
