"""What the broker itself reads of topics that clients write."""

import logging

from strom.broker.replaying import committed_records
from tests.storage.world import PARTITION, World, batch, undecodable


def test_records_that_cannot_be_decoded_do_not_hold_up_those_behind_them(caplog):
    world = World()
    world.append(batch(b"before"))
    world.append(undecodable(3))
    world.append(batch(b"after"))
    world.flush()
    with caplog.at_level(logging.ERROR):
        records, after = committed_records(world.log.read(0, 1 << 20), 0, PARTITION)
    assert [(record.offset, record.value) for record in records] == [(0, b"before"), (4, b"after")]
    assert after == 5
    assert f"{PARTITION}: skipped offsets 1 to 3" in caplog.text


def test_records_that_compress_very_well_are_not_taken_for_malformed():
    world = World(segment_bytes=1 << 20)
    world.append(batch(bytes(3 << 20), codec=4))
    world.flush()
    records, _ = committed_records(world.log.read(0, 1 << 20), 0, PARTITION)
    assert [len(record.value or b"") for record in records] == [3 << 20]
