"""Servers to test against: strom itself, and the real Kafka as the judge of what is right."""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import hypothesis
import pytest

from tools import kafka

# How long an example takes says nothing about what it states, on a busy machine least of all.
# `make test` judges a change, so it tries the same examples each time; `make explore` looks for new ones.
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True)
hypothesis.settings.register_profile("strom", deadline=None, derandomize=True)
hypothesis.settings.load_profile("strom")

# Many tests write records with times long past; retention must not take them away meanwhile.
DAY_MS = str(24 * 60 * 60 * 1000)
# Share groups may have locks that time out while a test waits for it.
STROM_SETTINGS = {
    "log.retention.check.interval.ms": DAY_MS,
    # Tests set these shorter for single groups, and do not wait between two assignments.
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
KAFKA_SETTINGS = {**STROM_SETTINGS, "log.initial.task.delay.ms": DAY_MS}

TARGETS = {
    "strom": ["strom"],
    "kafka": ["kafka"],
    "rabbitmq": [],  # only for tests/conformance_amqp
    "both": ["strom", "kafka"],
}


class Target(NamedTuple):
    """A running broker that a test talks to."""

    name: str
    bootstrap_servers: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=sorted(TARGETS),
        default="both",
        help="which broker the conformance tests talk to",
    )
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden with what happens now"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" in metafunc.fixturenames:
        names = TARGETS[metafunc.config.getoption("--target")]
        marks = {"strom": [], "kafka": [pytest.mark.oracle]}
        choices = [pytest.param(name, marks=marks[name]) for name in names]
        metafunc.parametrize("target", choices, indirect=True)


@pytest.fixture(scope="session")
def strom_server() -> Iterator[Target]:
    """One strom broker for all tests that can share it."""
    from strom.testing import LocalBroker

    with LocalBroker(settings=STROM_SETTINGS) as broker:
        yield Target("strom", broker.bootstrap_servers)


@pytest.fixture(scope="session")
def kafka_server() -> Iterator[Target]:
    """One real Kafka for all tests; skips with the reason where it cannot be had."""
    try:
        kafka.locate()
    except kafka.UnavailableError as reason:
        pytest.skip(f"no real Kafka: {reason}")
    with kafka.RealKafka(config=KAFKA_SETTINGS) as node:
        yield Target("kafka", node.bootstrap_servers)


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    """The broker under test. Each kind is started once, whatever the order of the tests."""
    chosen: Target = request.getfixturevalue(f"{request.param}_server")
    return chosen


@pytest.fixture
def new_topic_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names nobody has used on these servers, that tell which test they belong to."""
    test = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name)[:80].strip("-")
    return lambda: f"{test}-{next(_numbers)}"


@pytest.fixture
def topic(new_topic_name: Callable[[], str]) -> str:
    """A topic name of one's own; the topic itself is not created."""
    return new_topic_name()


_numbers = itertools.count(1)
