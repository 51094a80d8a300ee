"""Tests are found where their module is: `tests/a/b/test_c.py` for `src/strom/a/b/c.py`."""

from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "strom"
TESTS = ROOT / "tests"
SUITES = {
    "benchmarks": "the benchmarks and tools beside `src`",
    "conformance": "through real clients, strom and Kafka alike",
    "conformance_amqp": "through real clients, strom and RabbitMQ alike",
    "crash": "kill -9 and power loss of the whole",
    "deploy": "dashboards and alert rules",
    "docs": "that the pages are right and up to date",
    "examples": "what the docs and `examples/` show",
    "foreign": "other projects' own tests against strom",
    "fuzz": "any bytes on any port",
    "golden": "transcripts",
    "history": "what many clients saw, judged afterwards",
    "tools": "the benchmarks and tools beside `src`",
}
"""Folders that hold more than unit tests."""


def test_folders_mirror_the_source():
    found = {
        path.parent.relative_to(TESTS)
        for path in TESTS.rglob("test_*.py")
        if path.parent != TESTS and path.relative_to(TESTS).parts[0] not in SUITES
    }
    assert sorted(str(folder) for folder in found if not (SOURCE / folder).is_dir()) == []


def test_a_modules_tests_are_in_its_folder():
    modules: defaultdict[tuple[str, str], set[Path]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE)
        modules[place.parts[0], path.stem].add(place.parent)
    misplaced = []
    for path in TESTS.rglob("test_*.py"):
        place = path.relative_to(TESTS)
        folders = modules.get((place.parts[0], path.stem.removeprefix("test_")), set())
        if folders and place.parent not in folders:
            misplaced.append(f"{place} belongs to {', '.join(sorted(map(str, folders)))}")
    assert sorted(misplaced) == []
