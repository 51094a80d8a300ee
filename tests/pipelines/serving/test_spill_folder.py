"""What a killed query engine has left on disk is removed by the next one, and nothing else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.serving.spill_folder import SpillFolder
from strom.pipelines.views.manifests import Manifests


@contextmanager
def spilling(views: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Another process whose query has spilled; it is killed in the end."""
    command = [sys.executable, "-m", "tests.pipelines.serving.spilling", str(views)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"spilled\n"
            yield process
        finally:
            process.kill()


def files_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(sys.platform == "win32", reason="its files are removed when it is killed")
def test_files_of_a_killed_engine_are_removed_and_those_of_a_live_one_are_not(tmp_path):
    views, spill = tmp_path / "views", tmp_path / "spill"
    with spilling(views):
        live = files_in(spill)
        with spilling(views):
            assert files_in(spill) > live, "starting an engine removes nothing of another"
        assert any("duckdb_temp" in path.name for path in files_in(spill) - live)
        with closing(QueryEngine(Manifests(views))):
            assert len(files_in(spill) - live) == 1, "its own lock"
            assert files_in(spill) > live
        assert files_in(spill) == live
    with closing(QueryEngine(Manifests(views))):
        pass
    assert list(spill.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not looked for there")
def test_files_of_earlier_releases_are_removed_unless_their_process_lives(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    kept = {"notes.txt", f"duckdb_temp_{os.getpid()}_0_owner"}
    left = {"duckdb_temp_storage_S64K-0.tmp", f"duckdb_temp_{ended.pid}_0_owner"}
    for name in kept | left:
        (tmp_path / name).write_bytes(b"x")
    SpillFolder(tmp_path).close()
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path):
    (tmp_path / "spill").write_text("a file")
    folder = SpillFolder(tmp_path / "spill")
    folder.close()
    assert (tmp_path / "spill").read_text() == "a file"
