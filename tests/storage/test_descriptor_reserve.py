"""A process that has used up its descriptors can still open the files of its log."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, resource, sys
from strom.storage.files import DirectoryNotOpened, DiskFiles

folder = sys.argv[1]
files = DiskFiles(2)
reserve = files._reserve
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
try:
    while True:
        os.open(os.devnull, os.O_RDONLY)
except OSError:
    pass
opened = [files.open(f"{folder}/a", create=True), files.open(f"{folder}/b", create=True)]
assert len(reserve) == 0
for call in (lambda: files.open(f"{folder}/a"), lambda: files.list(folder)):
    try:
        call()
    except OSError as error:
        assert error.strerror == "Too many open files", error
    else:
        raise AssertionError("there was a descriptor left")
try:
    files.sync_directory(folder)
except DirectoryNotOpened:
    pass
else:
    raise AssertionError("there was a descriptor left")
for file in opened:
    file.append(b"x")
    file.close()
assert len(reserve) == 2
files.sync_directory(folder)
assert files.list(folder) == ["a", "b"]
assert len(reserve) == 2
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_files_are_opened_with_the_reserve_and_refill_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
