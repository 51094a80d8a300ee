"""File systems of one's own, for tests that break them. Everything is undone, also on failure."""

import fcntl
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FS_IOC_SHUTDOWN = 0x8004587D
WITHOUT_FLUSHING_THE_JOURNAL = 2
GONE_SECONDS = 120


def why_not() -> str | None:
    """Why file systems cannot be mounted here; None if they can."""
    if sys.platform != "linux":
        return "mounting a file system of one's own is done on Linux only"
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    for tool in ("mount", "umount", "mkfs.ext4"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    return None


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)


@contextmanager
def small_disk(folder: Path, size_mib: int) -> Iterator[Path]:
    """A disk that is soon full."""
    _run("mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        _run("umount", "--lazy", str(folder))


def use_up(disk: Path) -> None:
    """Leave not a byte free."""
    with (disk / "used-up").open("wb", buffering=0) as rest, suppress(OSError):
        while True:
            rest.write(bytes(4096))


class LosableDisk:
    """An ext4 file system in a file, whose power can be cut."""

    def __init__(self, folder: Path, size_mib: int = 128) -> None:
        self.image = folder / "image"
        self.mounted_at = folder / "mounted"
        self.mounted_at.mkdir()
        with self.image.open("wb") as file:
            file.truncate(size_mib << 20)
        _run("mkfs.ext4", "-q", "-F", str(self.image))
        self._is_mounted = False

    def mount(self) -> None:
        """Attach it; the journal is replayed, as after a power cut."""
        _run("mount", "-o", "loop", str(self.image), str(self.mounted_at))
        self._is_mounted = True

    def cut_power(self) -> None:
        """Everything that was not synced is gone, and nothing can be written any more."""
        descriptor = os.open(self.mounted_at, os.O_RDONLY)
        try:
            flags = struct.pack("I", WITHOUT_FLUSHING_THE_JOURNAL)
            fcntl.ioctl(descriptor, FS_IOC_SHUTDOWN, flags)
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        """Detach it; the loop device goes with it.

        A mount namespace that another test made meanwhile keeps both alive, without power: mounted again,
        it would be the same file system.
        """
        if self._is_mounted:
            _run("umount", str(self.mounted_at))
            self._is_mounted = False
            deadline = time.monotonic() + GONE_SECONDS
            while self._is_attached():
                assert time.monotonic() < deadline, f"{self.image} is still in use"
                time.sleep(0.01)

    def _is_attached(self) -> bool:
        for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
            with suppress(OSError):  # it is being detached
                if backing.read_text().strip() == str(self.image):
                    return True
        return False
