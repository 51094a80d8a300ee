"""Batches whose records cannot be decoded: trouble for who decodes them, never damage to the log."""

import logging

import pytest

from strom.model.errors import ApiError, ErrorCode, MalformedRecords
from strom.model.settings import INT_MAX
from strom.model.steps import run_at_once
from strom.storage import log as log_module
from strom.storage.log import Log
from strom.storage.log_reading import FoundOffset
from strom.storage.validation import Validated
from strom.wire.kafka.batch import headers, read_header
from strom.wire.kafka.records import ControlType, Marker, build_marker, read_records
from tests.storage.world import START_MS, World, batch, batch_headers, undecodable


def append_unchecked(world: World, data: bytearray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store a batch that an older version would have taken."""
    with monkeypatch.context() as patch:
        patch.setattr(
            log_module, "validate", lambda given, *_, **__: Validated(read_header(given), given)
        )
        world.append(data, from_client=False)


def values_of(log: Log) -> list[bytes | None]:
    """The values of all records that can be decoded."""
    found: list[bytes | None] = []
    offset = log.start_offset
    while offset < log.high_watermark:
        data = log.reader.read(offset, 10**6).data
        for position, header in headers(data):
            try:
                found += [record.value for record in read_records(data, position, header)]
            except MalformedRecords:
                found.append(None)
            offset = header.next_offset
    return found


def test_a_lookup_by_time_leads_to_the_batch_that_cannot_be_decoded():
    world = World()
    world.append(batch(b"before", timestamp=START_MS))
    world.append(undecodable(2, timestamp=START_MS + 10))
    world.append(batch(b"after", timestamp=START_MS + 20))
    world.flush()
    log = world.log
    assert run_at_once(log.reader.find_timestamp(START_MS + 5)) == FoundOffset(1, START_MS + 10, 0)
    assert run_at_once(log.reader.find_timestamp(START_MS + 15)) == FoundOffset(3, START_MS + 20, 0)
    assert run_at_once(log.reader.find_max_timestamp()) == FoundOffset(3, START_MS + 20, 0)
    log.delete_before(2)
    assert run_at_once(log.reader.find_timestamp(START_MS + 5)) == FoundOffset(2, START_MS + 10, 0)
    assert log.quarantined is None
    assert world.append(batch(b"more")).base_offset == 4


def test_the_largest_time_may_be_that_of_a_batch_that_cannot_be_decoded():
    world = World()
    world.append(undecodable(timestamp=START_MS + 10))
    world.flush()
    assert run_at_once(world.log.reader.find_max_timestamp()) == FoundOffset(0, START_MS + 10, 0)
    assert world.log.quarantined is None


@pytest.mark.parametrize("how", ["crash", "kill", "restart"])
def test_a_stored_batch_that_claims_too_much_does_not_keep_the_log_from_opening(how, monkeypatch):
    world = World()
    world.append(batch(b"before"))
    append_unchecked(world, undecodable(INT_MAX, b""), monkeypatch)
    world.append(batch(b"after"))
    world.flush()
    world.checkpoint()
    getattr(world, how)()
    log = world.log
    assert log.quarantined is None
    assert (log.start_offset, log.end_offset) == (0, INT_MAX + 2)
    assert values_of(log) == [b"before", None, b"after"]
    assert run_at_once(log.reader.find_timestamp(START_MS)) == FoundOffset(0, START_MS, 0)
    assert run_at_once(log.reader.find_timestamp(START_MS + 1)) is None
    world.append(batch(b"more"))
    world.flush()
    assert log.quarantined is None


def test_such_a_claim_is_refused_now():
    world = World()
    with pytest.raises(ApiError) as caught:
        world.append(undecodable(INT_MAX, b""))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert world.log.end_offset == 0


def test_compaction_keeps_what_it_cannot_decode_and_compacts_the_rest(caplog):
    world = World()  # the topic gets its policy only later, so that the batch is let in
    for at in range(6):
        world.append(batch(b"old %d" % at, key=b"key"))
    world.append(undecodable(2))
    for at in range(12):
        world.append(batch(b"new %d" % at, key=b"key"))
    world.flush()
    world.settings = world.settings.override({"cleanup.policy": "compact"})
    world.log.change_settings(
        world.settings.override({"min.cleanable.dirty.ratio": "0", "segment.ms": "1000"})
    )
    with caplog.at_level(logging.WARNING):
        assert world.compact()
    kept = values_of(world.log)
    assert None in kept
    assert not [value for value in kept if value is not None and value.startswith(b"old")]
    assert kept[-1] == b"new 11"
    assert "offset 6 " in caplog.text
    assert world.log.quarantined is None
    assert batch_headers(world.log)[0].base_offset == 6
    world.crash()
    assert values_of(world.log) == kept


def test_a_marker_that_cannot_be_decoded_does_not_keep_the_log_from_opening(monkeypatch):
    world = World()
    world.append(batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    marker = build_marker(Marker(ControlType.COMMIT, 0), producer_id=7, producer_epoch=0)
    noise = undecodable(producer_id=7, producer_epoch=0, transactional=True, control=True)
    assert read_header(noise).is_control
    monkeypatch.setattr(log_module, "read_marker", lambda *_: None)
    append_unchecked(world, noise, monkeypatch)
    monkeypatch.undo()
    world.flush()
    world.checkpoint()
    world.crash()
    assert world.log.quarantined is None
    assert world.log.has_open_transactions
    world.append(marker, from_client=False)
    world.flush()
    assert world.log.last_stable_offset == world.log.end_offset == 3
