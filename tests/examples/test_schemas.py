"""The three arguments for schemas, each as its example shows it."""

import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import Target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "schemas"


def outcome(name: str, target: Target) -> dict[str, str]:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--json"]
    done = subprocess.run(
        [*command, "--bootstrap-server", target.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_a_schema_makes_a_stream_robust(target: Target) -> None:
    seen = outcome("robustness", target)
    assert seen["without a schema, a wrong record"] == "is taken"
    assert "it breaks: KeyError" in seen["without a schema, the reader"]
    assert "refused by the serializer" in seen["with a schema, the wrong record"]
    assert seen["with a schema, the reader"] == "the mean is 21.5"
    # A real Kafka has no such setting: there the serializer alone stands guard.
    refused = seen.get("with a schema, past the serializer", "")
    assert ("refused by the broker" in refused) == (target.name == "strom")


def test_a_schema_says_what_is_meant(target: Target) -> None:
    seen = outcome("semantics", target)
    assert seen["with a schema, team A"] == seen["with a schema, team B"]
    assert seen["with a schema, team A"] == "19.99 €, 2026-03-01 12:30:00+00:00"
    assert seen["without a schema, team B (euros, seconds)"].startswith("1999 €")
    assert seen["what the price means"] == "In euros, with tax."


def test_schemas_keep_old_and_new_programs_together(target: Target) -> None:
    seen = outcome("compatibility", target)
    assert seen["an old consumer reads new data"] == "{'page': '/cart'}"
    assert seen["a new consumer reads old data"] == "{'page': '/', 'device': 'unknown'}"
    assert "is refused" in seen["a change that breaks readers"]
    assert seen["Apache's Avro library reads the same bytes"] == (
        "{'page': '/cart', 'device': 'phone'}"
    )


def test_without_an_address_an_example_starts_its_own_broker_and_shows_a_table() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "semantics.py")], capture_output=True, text=True, timeout=90
    )
    assert "Semantics" in done.stdout
