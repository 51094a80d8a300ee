"""One connection and fresh topics for each test, on whichever broker is under test."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.conformance.calls import Topic, create_topic
from tests.conformance.differences import DIFFERENCES
from tests.conformance.raw import RawClient
from tests.conftest import Target


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            reason = DIFFERENCES.get(item.originalname) or DIFFERENCES.get(item.name)
            if reason and item.callspec.params.get("target") == "strom":
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture
def client(target: Target) -> Iterator[RawClient]:
    """A connection that sends anything."""
    with RawClient(target.bootstrap_servers) as connection:
        yield connection


@pytest.fixture
def make_topic(client: RawClient, new_topic_name: Callable[[], str]) -> Callable[..., Topic]:
    """Creates topics with names of their own: `make_topic(partitions, configs)`."""

    def make(partitions: int = 1, configs: Mapping[str, str] | None = None) -> Topic:
        return create_topic(client, new_topic_name(), partitions, configs)

    return make


@pytest.fixture
def unknown_topic(new_topic_name: Callable[[], str]) -> Topic:
    """A name that no broker knows."""
    return Topic(new_topic_name(), None)
