"""All tests but the long ones, as `make test` runs them.

    python -m tools.run_tests [pytest's own arguments]

Tests that go through other people's programs (clients, servers, browsers) can fail for reasons of those
programs or of a busy machine. A few of them get a second chance, alone, and are named at the end
either way, so that nobody overlooks them. Tests of our own code alone never do.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WITH_OTHERS = (
    "tests/benchmarks/",
    "tests/cli/",
    "tests/conformance",
    "tests/connect/",
    "tests/crash/",
    "tests/examples/",
    "tests/foreign/",
    "tests/history/",
    "tests/pipelines/",
    "tests/registry/test_client.py",
    "tests/registry/test_schemas_log.py",
    "tests/registry/test_serializers.py",
    "tests/registry/test_takeover.py",
)
MOST_CHANCES = 5
SIDE_BY_SIDE = ("-n", "3", "--dist", "worksteal")
"""Most of the time is spent waiting for other programs, so three at a time suit two cores."""
SLOWEST = ("--durations", "25", "--durations-min", "5")
"""What to shorten next, should the whole take too long."""
SOME_FAILED = 1
_NOTES = "STROM_FAILED_TESTS"


def main(arguments: list[str]) -> int:
    """Run the tests; the exit code for the shell."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "failed"
        environment = {**os.environ, _NOTES: str(notes)}
        code = _pytest(
            "-p",
            "tools.run_tests",
            "-m",
            "not soak",
            *SIDE_BY_SIDE,
            *SLOWEST,
            *arguments,
            env=environment,
        )
        failed = notes.read_text().splitlines() if notes.exists() else []
    if code != SOME_FAILED or not may_have_another_chance(failed):
        return code
    print("\nOnce more, alone:", *failed, sep="\n  ", flush=True)
    again = _pytest("-p", "no:randomly", *failed, env=os.environ)
    verdict = "failed again" if again else "passed the second time; find out why it was needed"
    print(f"\n{len(failed)} of the tests {verdict}:", *failed, sep="\n  ", flush=True)
    return again


def may_have_another_chance(failed: list[str]) -> bool:
    """Whether these are few, and all of the kind that other programs can spoil."""
    return 0 < len(failed) <= MOST_CHANCES and all(one.startswith(WITH_OTHERS) for one in failed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """As a plugin of the first run: note which tests failed."""
    reports = [
        report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, ())
    ]
    failed = sorted({report.nodeid for report in reports})
    Path(os.environ[_NOTES]).write_text("\n".join(failed))


def _pytest(*arguments: str, env: Mapping[str, str]) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
