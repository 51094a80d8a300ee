"""The scripts of consumer groups, played again: `pytest --update-golden` writes what happens now.

Commit only a difference that you understand.
"""

from pathlib import Path

import pytest

from tests.coordination.groups.consumer.script import Script

FOLDER = Path(__file__).resolve().parents[3] / "golden" / "consumer_groups"
SCRIPTS = sorted(FOLDER.glob("*.txt"))


def test_there_are_scripts():
    assert len(SCRIPTS) >= 5


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_what_happens_is_what_is_written(path, request):
    expected = path.read_text("utf-8")
    happened = Script().play(expected)
    if request.config.getoption("--update-golden"):
        path.write_text(happened, "utf-8")
    else:
        assert happened == expected
