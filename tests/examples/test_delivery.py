"""Each delivery example loses, doubles, or keeps exactly what it says, when its worker is killed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "delivery"
UNDER_WAY = list(range(20, 30))
"""The orders of the batch during which the worker is killed."""


def play(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def outcome(name: str, target: Target) -> dict[str, Any]:
    text = play(name, "--json", "--bootstrap-server", target.bootstrap_servers)
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.slow
def test_at_most_once_loses_and_never_doubles(target: Target) -> None:
    seen = outcome("at_most_once", target)
    assert (seen["lost"], seen["doubled"]) == (UNDER_WAY, [])


@pytest.mark.slow
def test_at_least_once_doubles_and_never_loses(target: Target) -> None:
    seen = outcome("at_least_once", target)
    assert (seen["lost"], seen["doubled"]) == ([], UNDER_WAY)


@pytest.mark.slow
def test_exactly_once_neither_loses_nor_doubles(target: Target) -> None:
    seen = outcome("exactly_once", target)
    assert (seen["lost"], seen["doubled"]) == ([], [])
    assert seen["aborted"] == len(UNDER_WAY)  # so the first worker really had sent them


@pytest.mark.slow
def test_without_an_address_an_example_starts_its_own_broker_and_shows_a_table() -> None:
    assert "10: #20–29" in play("at_least_once")
