"""One suite for strom's queues and the real RabbitMQ, as the judge of what is right."""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pika
import pytest

from strom.testing import LocalBroker
from tools import rabbitmq

TARGETS = {
    "strom": ["strom"],
    "rabbitmq": ["rabbitmq"],
    "kafka": [],
    "both": ["strom", "rabbitmq"],
}
_numbers = itertools.count()


class QueueTarget(NamedTuple):
    """A running broker of queues."""

    name: str
    url: str


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        names = TARGETS[metafunc.config.getoption("--target")]
        marks = {"strom": [], "rabbitmq": [pytest.mark.rabbitmq]}
        choices = [pytest.param(name, marks=marks[name]) for name in names]
        metafunc.parametrize("server", choices, indirect=True)


@pytest.fixture(scope="session")
def strom_queues() -> Iterator[QueueTarget]:
    with LocalBroker(queues=True) as broker:
        yield QueueTarget("strom", broker.amqp_url)


@pytest.fixture(scope="session")
def rabbitmq_queues() -> Iterator[QueueTarget]:
    try:
        rabbitmq.locate()
    except rabbitmq.UnavailableError as reason:
        pytest.skip(f"no real RabbitMQ: {reason}")
    with rabbitmq.RealRabbitMQ() as node:
        yield QueueTarget("rabbitmq", node.url)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> QueueTarget:
    """The broker under test. Each kind is started once."""
    chosen: QueueTarget = request.getfixturevalue(f"{request.param}_queues")
    return chosen


@pytest.fixture
def connect(server: QueueTarget) -> Iterator[Callable[..., pika.BlockingConnection]]:
    """Opens connections, which are closed after the test."""
    opened: list[pika.BlockingConnection] = []

    def make(**changes: object) -> pika.BlockingConnection:
        parameters = pika.URLParameters(server.url)
        parameters.blocked_connection_timeout = 20
        for name, value in changes.items():
            setattr(parameters, name, value)
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1]

    yield make
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def channel(connect: Callable[..., pika.BlockingConnection]):
    """A channel of a connection of its own."""
    return connect().channel()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Unused names, which begin with the name of their test."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:60].strip("-")
    return lambda what="q": f"{test}-{what}-{next(_numbers)}"
