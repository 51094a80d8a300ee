"""Connections leave the log its descriptors."""

import pytest

from strom.server.process_limits import (
    FEWEST_CONNECTIONS,
    OTHER_DESCRIPTORS,
    ConnectionSlots,
    make_connection_slots,
)

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
    assert make_connection_slots(12_000, segment_files).limit == expected


def test_all_listeners_share_the_slots():
    slots = ConnectionSlots(2)
    kafka, amqp, refused = object(), object(), object()
    assert slots.take(kafka)
    assert slots.take(amqp)
    assert not slots.take(refused)
    slots.release(refused)
    assert not slots.take(refused)
    assert slots.refused == 2
    slots.release(amqp)
    assert slots.take(refused)
