"""What several tests of requests need."""

import asyncio
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from strom.server.kafka import long_work as slicing
from strom.server.kafka.api import Services
from strom.server.kafka.dispatch import Dispatcher
from strom.server.kafka.listener import KafkaListener
from strom.wire.kafka.messages import (
    k10_find_coordinator,
)
from tests.server.kafka.large_requests import (
    MANY,
    Turns,
    World,
)
from tests.server.kafka_calls import create_request, running_node


class Served(NamedTuple):
    """What a node serves its requests with."""

    services: Services
    listener: KafkaListener


@pytest.fixture
def served(monkeypatch):
    """The nodes that the test has started, in their order."""
    nodes: list[Served] = []
    serve = Dispatcher.serve

    def remembering(self, services, listener):
        nodes.append(Served(services, listener))
        serve(self, services, listener)

    monkeypatch.setattr(Dispatcher, "serve", remembering)
    return nodes


@pytest.fixture
def world(served, monkeypatch):
    """Starts a node whose long work has a turn of the event loop after each step."""
    monkeypatch.setattr(slicing, "SLICE_SECONDS", 0)

    @asynccontextmanager
    async def start():
        async with running_node(auto_create_topics=False) as node:
            turns = Turns()
            task = asyncio.create_task(turns.run())
            try:
                world = World(node, served[0].services, turns)
                await world.handle(create_request("big", MANY), 5)
                coordinator = k10_find_coordinator.FindCoordinatorRequest(key="g")
                await world.handle(coordinator, 0)
                yield world
            finally:
                task.cancel()

    return start
