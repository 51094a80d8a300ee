"""A broker with queues, connections to it, and names."""

from collections.abc import Callable, Iterator

import pika
import pytest

from strom.testing import LocalBroker


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(queues=True) as running:
        yield running


@pytest.fixture
def connect(broker: LocalBroker) -> Iterator[Callable[[], pika.BlockingConnection]]:
    opened = []

    def make() -> pika.BlockingConnection:
        opened.append(pika.BlockingConnection(pika.URLParameters(broker.amqp_url)))
        return opened[-1]

    yield make
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def channel(connect):
    made = connect().channel()
    made.confirm_delivery()
    return made
