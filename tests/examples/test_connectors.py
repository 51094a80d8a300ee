"""The examples of connectors run, and say what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

from strom.connect.runtime.rest.server import RunningWorker
from strom.testing import LocalBroker

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "connectors"
EXPECTED = {
    "files": ["page,ms", "/,12", "/tea,30", "/cup,8", "/,10"],
    "http_interface": [
        *(f"/copies/{number}: tea {number}" for number in range(1, 6)),
        "/copies/6: a cup",
    ],
    "queues": [f"job-{number}: paint wall {number}" for number in (1, 2, 3)],
}


@pytest.fixture(scope="module")
def addresses():
    with LocalBroker(queues=True) as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "rest.port": "0",
            "offset.flush.interval.ms": "200",
        }
        with RunningWorker(settings) as worker:
            yield worker.url, broker.amqp_url.replace("guest:guest@", "")


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_example_says_what_it_promises(addresses, name):
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), *addresses],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == EXPECTED[name]
