"""Kafka's own code as the judge of transforms and converters."""

import subprocess
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
        java = kafka.locate().java
    except kafka.UnavailableError as reason:
        pytest.skip(f"no real Kafka: {reason}")
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True).stdout
    if "jdk.compiler" not in modules:
        pytest.skip("this Java has no compiler: install a JDK")
    with Judge() as running:
        yield running


@pytest.fixture(scope="session")
def registry_url(strom_server: Target) -> Iterator[str]:
    """A schema registry for converters."""
    with RegistryServer(strom_server.bootstrap_servers, topic="connect-schemas") as server:
        yield server.url
