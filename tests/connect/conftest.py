"""Kafka's own code as the judge of transforms and converters."""

from collections.abc import Iterator

import pytest

from strom.registry.server import RegistryServer
from tests.conftest import Target
from tests.connect.judge import Judge
from tools import kafka


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """Skips with the reason where Kafka's jars cannot be had."""
    try:
        kafka.locate()
    except kafka.UnavailableError as reason:
        pytest.skip(f"no real Kafka: {reason}")
    with Judge() as running:
        yield running


@pytest.fixture(scope="session")
def registry_url(strom_server: Target) -> Iterator[str]:
    """A schema registry for converters."""
    with RegistryServer(strom_server.bootstrap_servers, topic="connect-schemas") as server:
        yield server.url
