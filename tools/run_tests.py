"""All tests but the long ones, as `make test` runs them.

    python -m tools.run_tests [pytest's own arguments]

A test that fails has found a defect, of the code or of the test. The few that fail through a known defect
of another project's program are listed in RERUNS, each with the reason, and run a second time, alone.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RERUNS = {
    "tests/conformance/test_kafka_python.py": "kafka-python 3.0.12 loses a request for metadata "
    "that is made while a response is in flight; its consumer then idles until the test's timeout, on "
    "Apache Kafka too.",
}
"""Tests that may run twice, by the beginning of their ids, and why."""
MOST_RERUNS = 2
SIDE_BY_SIDE = ("-n", "3", "--dist", "worksteal")
"""Most of the time is spent waiting for other programs, so three at a time suit two cores."""
SLOWEST = ("--durations", "10", "--durations-min", "1")
SOME_FAILED = 1
_NOTES = "STROM_FAILED_TESTS"


def main(arguments: list[str]) -> int:
    """Run the tests; the exit code for the shell."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "failed"
        environment = {**keep_bytecode(os.environ), _NOTES: str(notes)}
        code = _pytest(
            "-p",
            "tools.run_tests",
            "-p",
            "tools.schedule_tests",
            "-m",
            "not soak",
            *SIDE_BY_SIDE,
            *SLOWEST,
            *arguments,
            env=environment,
        )
        failed = notes.read_text().splitlines() if notes.exists() else []
    if code != SOME_FAILED or not may_run_again(failed):
        return code
    print("\nA second run, alone:", *failed, sep="\n  ", flush=True)
    again = _pytest("-p", "no:randomly", *failed, env=os.environ)
    verdict = "failed again" if again else "passed the second time"
    lines = [f"{test}: {_reason(test)}" for test in failed]
    print(f"\n{len(failed)} of the tests {verdict}:", *lines, sep="\n  ", flush=True)
    return again


def keep_bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """Where Python may not write bytecode beside the sources, it goes into the virtual environment.

    The tests start hundreds of processes; each would compile strom and its libraries, which is more
    than a third of a broker's start. The workers would also rewrite the assertions of every module.
    """
    kept = dict(environment)
    if kept.pop("PYTHONDONTWRITEBYTECODE", None):
        kept.setdefault("PYTHONPYCACHEPREFIX", str(Path(sys.prefix) / "bytecode"))
    return kept


def may_run_again(failed: list[str]) -> bool:
    """Whether these are few, and each is listed with its reason."""
    return 0 < len(failed) <= MOST_RERUNS and all(map(_reason, failed))


def _reason(test: str) -> str | None:
    return next((reason for listed, reason in RERUNS.items() if test.startswith(listed)), None)


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
