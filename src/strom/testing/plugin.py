"""The pytest plugin that comes with strom: a fixture `broker`, one fresh broker for a test."""

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
