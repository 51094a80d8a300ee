"""Connections leave the log its descriptors."""

import asyncio

import pytest

from strom.app import Node
from strom.model.broker_settings import BrokerSettings
from strom.server.process_limits import (
    FEWEST_CONNECTIONS,
    OTHER_DESCRIPTORS,
    PER_ADDRESS,
    TOTAL,
    ConnectionSlots,
    make_connection_slots,
)
from strom.storage.files import ENOUGH_OPEN_FILES

resource = pytest.importorskip("resource")


@pytest.mark.parametrize(
    ("open_files", "segment_files", "expected"),
    [
        pytest.param(256, 128, 128 - OTHER_DESCRIPTORS, id="few"),
        pytest.param(64, 32, FEWEST_CONNECTIONS, id="too few"),
        pytest.param(65_536, 16_384, 12_000, id="plenty"),
        pytest.param(resource.RLIM_INFINITY, 16_384, 12_000, id="no limit"),
    ],
)
def test_the_limit_follows_from_the_files_that_the_process_may_open(
    open_files, segment_files, expected, monkeypatch
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (open_files, open_files))
    assert make_connection_slots(BrokerSettings(), segment_files).limit == expected


@pytest.mark.parametrize(
    ("open_files", "expected"),
    [(20_000, 12_000), (16_000, 16_000 - ENOUGH_OPEN_FILES - OTHER_DESCRIPTORS)],
)
def test_a_broker_gives_connections_what_its_log_can_do_without(open_files, expected, monkeypatch):
    async def limit():
        return Node(BrokerSettings())._slots.limit

    monkeypatch.setattr(resource, "getrlimit", lambda _: (open_files, open_files))
    assert asyncio.run(limit()) == expected


def test_all_listeners_share_the_slots():
    slots = ConnectionSlots(2)
    kafka, amqp, refused = object(), object(), object()
    assert slots.take(kafka, "10.0.0.1")
    assert slots.take(amqp, "10.0.0.2")
    assert not slots.take(refused, "10.0.0.3")
    slots.release(refused)
    assert not slots.take(refused, "10.0.0.3")
    assert slots.refused == {TOTAL: 2, PER_ADDRESS: 0}
    slots.release(amqp)
    assert slots.take(refused, "10.0.0.3")


def test_an_address_has_a_limit_of_its_own():
    settings = BrokerSettings().override(
        {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "10.0.0.2:2,::1:0"}
    )
    slots = make_connection_slots(settings, 0)
    first, second, third = object(), object(), object()
    assert slots.take(first, "10.0.0.1")
    assert not slots.take(second, "10.0.0.1")
    assert not slots.take(second, "::ffff:10.0.0.1"), "it is the same address"
    assert slots.take(second, "10.0.0.2")
    assert slots.take(third, "10.0.0.2")
    assert not slots.take(object(), "10.0.0.2")
    assert not slots.take(object(), "::1")
    assert slots.refused == {TOTAL: 0, PER_ADDRESS: 4}
    slots.release(first)
    assert slots.take(object(), "10.0.0.1")
