import asyncio

import pytest

from strom.server.kafka import handlers
from strom.server.kafka.api import HANDLERS, Needs, handler
from strom.server.kafka.handlers.k18_api_versions import TELEMETRY
from strom.wire.kafka.messages import REQUESTS
from strom.wire.kafka.messages.k00_produce import ProduceRequest
from strom.wire.kafka.messages.k18_api_versions import ApiVersionsRequest
from tests.server.kafka_calls import running_node

handlers.load()

OPEN_TO_ALL = {ApiVersionsRequest.SCHEMA.api_key}
"""Needs no permission: it comes before a client can say who it is."""
OF_THIS_ISSUE = {0, 1, 2, 3, 10, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 44, 60, 75}


def test_every_promised_api_is_registered():
    assert set(HANDLERS) >= OF_THIS_ISSUE


def test_every_registered_api_has_its_declaration():
    for key, registered in HANDLERS.items():
        assert REQUESTS[key] is registered.request
        declared = registered.request.SCHEMA.versions
        assert declared.first <= registered.versions.first
        assert registered.versions.first <= registered.versions.last <= declared.last


@pytest.mark.parametrize("key", sorted(OF_THIS_ISSUE))
def test_every_handler_declares_what_a_client_must_be_allowed(key):
    needs = HANDLERS[key].needs
    assert all(isinstance(need, Needs) for need in needs)
    assert bool(needs) != (key in OPEN_TO_ALL)


def test_two_handlers_for_one_api_are_refused():
    with pytest.raises(ValueError, match="two handlers"):
        handler(ProduceRequest)(lambda _request, _context: None)


def test_what_is_advertised_is_what_is_registered():
    async def test():
        async with running_node() as node:
            caller = await node.caller()
            request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
            answer = await caller.call(request, 3)
        advertised = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }
        registered = {
            key: tuple(found.versions) for key, found in HANDLERS.items() if key not in TELEMETRY
        }
        produce = ProduceRequest.SCHEMA.api_key
        registered[produce] = (0, registered[produce][1])  # as Kafka lists it
        assert advertised == registered

    asyncio.run(test())
