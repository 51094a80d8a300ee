"""RabbitMQ's Java client works unchanged, and sees the same on both servers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance_amqp.conftest import QueueTarget
from tools import amqp_client

SOURCE = Path(__file__).parents[1] / "foreign" / "java" / "QueueClient.java"
SEEN = """\
declared with 0 messages
all confirmed: true
waiting: 500
consumed in order: true
left: 0
dead letter: no good, rejected 1 time, key orders.bad
returned: 312 NO_ROUTE: lost
confirmed all the same: true
redelivered: false, then true
in the transaction: [committed]
deleted with 0 messages
refused: 404
connection is open: true
closed
"""


def test_the_java_client_declares_publishes_consumes_and_is_refused(
    server: QueueTarget, name: Callable[..., str]
) -> None:
    try:
        amqp_client.locate()
    except amqp_client.UnavailableError as reason:
        pytest.skip(f"no Java client: {reason}")
    done = amqp_client.run_source(SOURCE, server.url, name("java"))
    assert done.stdout == SEEN, done.stderr
    assert done.returncode == 0
