"""The real RabbitMQ as a throw-away node."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tools import rabbitmq

ROOT = Path(rabbitmq.__file__).parent.parent
PATIENCE_SECONDS = 30


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_a_node_ends_with_the_process_that_started_it() -> None:
    try:
        rabbitmq.locate()
    except rabbitmq.UnavailableError as reason:
        pytest.skip(f"no real RabbitMQ: {reason}")
    command = [sys.executable, "-m", "tools.rabbitmq", "start"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as starter:
        assert "Ctrl-C ends it" in starter.stdout.readline()
        node = psutil.Process(starter.pid).children(recursive=True)
        folder = next(one.cwd() for one in node if "real-rabbitmq-" in one.cwd())
        starter.kill()
    assert psutil.wait_procs(node, PATIENCE_SECONDS)[1] == []
    assert not Path(folder).exists()
