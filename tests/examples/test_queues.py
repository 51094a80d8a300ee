"""The examples of queues run, and say what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

from strom.testing import LocalBroker

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "queues"
EXPECTED = {
    "direct_logs": [
        "pager got ['error: disk full']",
        "archive got ['info: started', 'error: disk full']",
    ],
    "fanout_news": [f"reader {number} got 'it rains'" for number in (1, 2, 3)],
    "topic_orders": [
        "german-books (de.*.books) got ['de.berlin.books']",
        "all-german (de.#) got ['de.berlin.books', 'de.bonn.music.urgent']",
        "urgent (#.urgent) got ['de.bonn.music.urgent', 'fr.urgent']",
    ],
    "headers_jobs": [
        "printers got ['poster']",
        "archive got ['poster', 'letter', 'photo']",
    ],
    "replay": ["booked 5", "booked 7", "replayed eva 5", "replayed eva 7"],
}


@pytest.fixture(scope="module")
def broker():
    with LocalBroker(queues=True) as running:
        yield running


def run(broker, name):
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), broker.amqp_url, broker.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_example_says_what_it_promises(broker, name):
    assert run(broker, name) == EXPECTED[name]


def test_the_work_is_shared_and_all_of_it_is_done(broker):
    lines = run(broker, "work")
    assert sorted(line.partition(" does ")[2] for line in lines[1:]) == [
        f"job {number}" for number in range(1, 7)
    ]
    assert {line.split()[0] for line in lines[1:]} == {"Anna", "Bert"}
