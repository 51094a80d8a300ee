"""All tests but the long ones, as `make test` runs them.

    python -m tools.run_tests [pytest's own arguments]

Tests that go through other people's programs (clients, servers, browsers) can fail for reasons of those
programs or of a busy machine. Up to three of them get a second chance, alone, and are named at the end
either way, so that nobody overlooks them. Tests of our own code alone never do.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAST_FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
WITH_OTHERS = (
    "tests/benchmarks/",
    "tests/cli/",
    "tests/conformance",
    "tests/crash/",
    "tests/examples/",
    "tests/foreign/",
    "tests/history/",
    "tests/pipelines/",
)
MOST_CHANCES = 3
SOME_FAILED = 1


def main(arguments: list[str]) -> int:
    """Run the tests; the exit code for the shell."""
    code = _pytest("-m", "not soak", "--cache-clear", *arguments)
    if code != SOME_FAILED:
        return code
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if not may_have_another_chance(failed):
        return code
    print(f"\nOnce more, alone: {', '.join(failed)}", flush=True)
    again = _pytest("-p", "no:randomly", *failed)
    verdict = "failed again" if again else "passed the second time; find out why it was needed"
    print(f"\n{len(failed)} of the tests {verdict}:", *failed, sep="\n  ", flush=True)
    return again


def may_have_another_chance(failed: list[str]) -> bool:
    """Whether these are few, and all of the kind that other programs can spoil."""
    return 0 < len(failed) <= MOST_CHANCES and all(one.startswith(WITH_OTHERS) for one in failed)


def _pytest(*arguments: str) -> int:
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
