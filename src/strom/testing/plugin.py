"""strom's pytest plugin: the fixture `broker`, a fresh broker for each test."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from strom.testing.local_broker import LocalBroker

pytest.register_assert_rewrite("strom.testing.connectors")


@pytest.fixture
def broker() -> "Iterator[LocalBroker]":
    """A fresh broker on a free port; `broker.bootstrap_servers` is its address."""
    from strom.testing.local_broker import LocalBroker

    with LocalBroker() as running:
        yield running
