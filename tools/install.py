"""Installs pinned, hash-checked requirements and strom itself into the environment that runs it.

    .venv/bin/python tools/install.py requirements/dev.txt

It uses uv, which takes a fifth of pip's time, and pip where uv cannot be had or fails. It needs only the
standard library, for it runs before anything is installed.
"""

import ast
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
STROM = ("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
# The files pin dependencies, too. To resolve them again, uv would fetch the 400 MB of pyspark twice.
COMPLETE = ("--no-deps", "--require-hashes", "-r")
# pyspark comes as source: without this, building its wheel compresses jars that are unpacked right after.
PYSPARK = ("--config-settings-package", "pyspark:--build-option=--compression=stored")
PROGRESS_S = 5
_SECTIONS = ("global", "install", ":env:")
"""Of pip's configuration, each overriding those before it."""
_TRUE = {"1", "true", "yes", "on"}


def main(arguments: list[str]) -> int:
    """Install; the exit code for the shell."""
    requirements = Path(arguments[0])
    began = time.monotonic()
    print(f"Installing {requirements} into {sys.prefix} …", flush=True)
    pinned = (*COMPLETE, str(requirements))
    environment = {**uv_settings(pip_settings(_pip_config())), **os.environ}
    if _install_uv(requirements):
        # Named, because UV_PYTHON or UV_SYSTEM_PYTHON in the user's shell would choose another one.
        uv = (sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable)
        # From uv's cache first: it asks the index for each package otherwise, and fetches those again
        # whose index sends no validators. The hashes decide in both cases.
        cached = _run(*uv, "--offline", *PYSPARK, *pinned, env=environment, quietly=True)
        if (cached or _run(*uv, *PYSPARK, *pinned, env=environment)) and _run(
            *uv, *STROM, env=environment
        ):
            return _report(began)
        print("uv could not install them: pip does, which takes some minutes.", flush=True)
    if all(_run(*PIP, "install", *what, env=os.environ) for what in (pinned, STROM)):
        return _report(began)
    return 1


def pip_settings(lines: Iterable[str]) -> dict[str, str]:
    """pip's settings from what `pip config list` prints, `section.name='value'` a line."""
    sections: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in lines:
        key, equals, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if equals and section in sections:
            sections[section][name] = str(ast.literal_eval(value))
    return {name: value for section in _SECTIONS for name, value in sections[section].items()}


def uv_settings(pip: Mapping[str, str]) -> dict[str, str]:
    """The same for uv, which reads neither pip's files nor its variables.

    As variables, not as arguments: an address may hold a password, and every user sees arguments.
    """
    found = {
        # Every index is asked, as pip does it. What is taken from them is decided by the hashes.
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": " ".join(pip.get("extra-index-url", "").split()),
        "UV_FIND_LINKS": ",".join(pip.get("find-links", "").split()),
        "UV_NO_INDEX": "true" if pip.get("no-index", "").lower() in _TRUE else "",
        "UV_INSECURE_HOST": " ".join(pip.get("trusted-host", "").split()),
        "UV_HTTP_TIMEOUT": pip.get("timeout", pip.get("default-timeout", "")),
        "SSL_CERT_FILE": pip.get("cert", ""),
        "SSL_CLIENT_CERT": pip.get("client-cert", ""),
        "ALL_PROXY": pip.get("proxy", ""),
    }
    return {name: value for name, value in found.items() if value}


def pinned_lines(requirements: str, package: str) -> str:
    """The lines of a requirements file that pin one package, with its hashes; empty if there are none."""
    lines = requirements.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if line.startswith(f"{package}=="):
            end = index + 1
            while end < len(lines) and lines[end].startswith(" "):
                end += 1
            return "".join(lines[index:end])
    return ""


def _install_uv(requirements: Path) -> bool:
    pinned = pinned_lines(requirements.read_text("utf-8"), "uv")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "uv.txt"
        file.write_text(pinned, "utf-8")
        return _run(*PIP, "install", "--quiet", "--require-hashes", "-r", str(file), env=os.environ)


def _pip_config() -> list[str]:
    command = [*PIP, "config", "list"]
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()


def _run(*command: str, env: Mapping[str, str], quietly: bool = False) -> bool:
    began = time.monotonic()
    output = subprocess.DEVNULL if quietly else None
    with subprocess.Popen(command, env=env, stdout=output, stderr=output) as process:
        while True:
            try:
                return process.wait(PROGRESS_S) == 0
            except subprocess.TimeoutExpired:
                if quietly or not sys.stderr.isatty():  # uv draws its progress on terminals only
                    print(f"  … {time.monotonic() - began:.0f} s", flush=True)


def _report(began: float) -> int:
    print(f"Installed in {time.monotonic() - began:.0f} s.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
