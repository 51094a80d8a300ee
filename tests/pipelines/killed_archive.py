"""Compacts an archive and kills itself with -9 in the middle; see `layers/test_master.py`."""

import os
import signal
import sys
import threading
from pathlib import Path

from deltalake import DeltaTable

from strom.pipelines.layers import master
from strom.pipelines.layers.master import MasterDataset

POINTS = (
    "when a new file appears",
    "when the new commit appears",
    "before old files are removed",
    "when an old file is removed",
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def listing(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.suffix in (".parquet", ".json")}


def watch(folder: Path, point: str) -> None:
    """Die as soon as the folder shows that the point is reached: the library has no seam for it."""
    before = listing(folder)
    suffix = ".json" if "commit" in point else ".parquet"

    def wait() -> None:
        while True:
            now = listing(folder)
            changed = before - now if "removed" in point else now - before
            if any(path.suffix == suffix for path in changed):
                die()

    threading.Thread(target=wait, daemon=True).start()


def main(folder: str, topic: str, point: str) -> None:
    master.SMALL_FILES = 2
    master.READERS_HOURS = 0
    archive = MasterDataset(Path(folder), topic)
    if point == "before old files are removed":
        DeltaTable.vacuum = lambda *_, **__: die()  # type: ignore[method-assign]
    else:
        watch(archive.path, point)
    archive.compact()


if __name__ == "__main__":
    main(*sys.argv[1:])
