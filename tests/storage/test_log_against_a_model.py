"""The log against a naive model, with crashes among the rules.

The model is the list of all records ever appended. Whatever happens: what was flushed is there,
nothing is there that was not appended, and offsets are dense until compaction.
"""

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import ControlType, Marker, Record, build_batch, build_marker
from tests.storage.world import SMALL_SEGMENTS, World, read_all

KEYS = st.sampled_from([b"a", b"b", b"c"])
VALUES = st.one_of(st.none(), st.binary(min_size=1, max_size=80))


class LogMachine(RuleBasedStateMachine):
    """Rules for anything that can happen to one partition."""

    @initialize(seed=st.integers(0, 2**32), compacted=st.booleans(), durable=st.booleans())
    def start(self, seed, compacted, durable):
        policy = ("compact",) if compacted else ("delete",)
        self.world = World(
            SMALL_SEGMENTS,
            seed=seed,
            cleanup_policy=policy,
            flush="disk" if durable else "os",
            delete_retention_ms=0,
            min_cleanable_dirty_ratio=0.0,
            retention_ms=1000,
        )
        self.records: dict[int, Record] = {}
        self.batch_ends = {0}
        self.flushed = 0
        self.largest_start = 0
        self.was_compacted = False
        self.sequences: dict[int, int] = {}
        self.last_batch: dict[int, tuple[bytearray, int]] = {}
        self.open_transactions: dict[int, int] = {}
        self.markers: dict[int, tuple[int, int, bool]] = {}
        self.owners: dict[int, int] = {}
        self.flushes = []

    @property
    def log(self):
        return self.world.log

    def remember(self, base_offset, records):
        for record in records:
            offset = base_offset + record.offset
            self.records[offset] = record._replace(offset=offset)
        self.batch_ends.add(self.log.end_offset)

    def new_records(self, contents):
        return [
            Record(at, self.world.now_ms, key, value) for at, (key, value) in enumerate(contents)
        ]

    @rule(
        contents=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4), codec=st.integers(0, 4)
    )
    def append(self, contents, codec):
        records = self.new_records(contents)
        appended = self.world.append(build_batch(records, codec=codec))
        assert appended.base_offset == self.log.end_offset - len(records)
        self.remember(appended.base_offset, records)

    @rule(keys=st.lists(KEYS, min_size=5, max_size=15), tombstones=st.booleans())
    def append_many(self, keys, tombstones):
        for at, key in enumerate(keys):
            self.append([(key, None if tombstones and at % 3 else b"v" * 60)], 0)

    @rule(producer=st.integers(1, 3), key=KEYS, value=VALUES)
    def append_idempotent(self, producer, key, value):
        if producer in self.open_transactions:
            return
        self.produce(producer, key, value, transactional=False)

    @rule(producer=st.integers(1, 3), key=KEYS, value=VALUES)
    def append_in_transaction(self, producer, key, value):
        appended = self.produce(producer, key, value, transactional=True)
        self.owners[appended.base_offset] = producer
        self.open_transactions.setdefault(producer, appended.base_offset)

    def produce(self, producer, key, value, *, transactional):
        records = self.new_records([(key, value)])
        data = build_batch(
            records,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=self.sequences.get(producer, 0),
            transactional=transactional,
        )
        appended = self.world.append(bytearray(data))
        assert not appended.duplicate
        self.sequences[producer] = self.sequences.get(producer, 0) + 1
        self.last_batch[producer] = data, appended.base_offset
        self.remember(appended.base_offset, records)
        return appended

    @rule(producer=st.integers(1, 3))
    def send_the_last_batch_again(self, producer):
        if producer in self.last_batch:
            data, offset = self.last_batch[producer]
            end = self.log.end_offset
            appended = self.world.append(bytearray(data))
            assert appended.duplicate
            assert appended.base_offset == offset
            assert self.log.end_offset == end

    @rule(producer=st.integers(1, 3), commit=st.booleans())
    def end_transaction(self, producer, commit):
        if producer not in self.open_transactions:
            return
        first = self.open_transactions.pop(producer)
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        marker = build_marker(
            Marker(kind, 0), producer_id=producer, producer_epoch=0, timestamp=self.world.now_ms
        )
        end = self.log.end_offset
        self.world.append(marker, from_client=False)
        self.batch_ends.add(self.log.end_offset)
        self.markers[end] = producer, first, commit

    @rule()
    def flush(self):
        self.world.flush()
        self.flushed = self.log.end_offset
        assert self.log.flushed_offset == self.log.end_offset
        assert self.log.high_watermark == self.log.end_offset

    @rule()
    def begin_flush(self):
        flush = self.log.begin_flush()
        if flush is not None:
            self.flushes.append(flush)

    @precondition(lambda self: self.flushes)
    @rule(data=st.data())
    def finish_a_flush(self, data):
        flush = self.flushes.pop(data.draw(st.integers(0, len(self.flushes) - 1)))
        flush.sync()
        self.log.finish_flush(flush)
        self.flushed = max(self.flushed, flush.end_offset)
        assert self.log.flushed_offset == self.flushed

    @rule()
    def checkpoint(self):
        self.world.checkpoint()

    @rule(passed=st.integers(1, 800))
    def time_passes(self, passed):
        self.world.now_ms += passed
        self.world.files.now_ms = self.world.now_ms

    @rule()
    def delete_old_segments(self):
        self.log.delete_old_segments(self.world.now_ms)
        self.world.directory.remove_deleted_files(self.world.now_ms)
        self.largest_start = max(self.largest_start, self.log.start_offset)

    @rule(share=st.floats(0, 1))
    def delete_before(self, share):
        offset = int(self.log.high_watermark * share)
        assert self.log.delete_before(offset) == max(offset, self.log.start_offset)
        self.largest_start = max(self.largest_start, self.log.start_offset)

    @rule()
    def compact(self):
        self.was_compacted |= self.world.compact()
        self.world.directory.remove_deleted_files(self.world.now_ms)

    @rule(steps=st.integers(0, 40))
    def crash_while_compacting(self, steps):
        """Also proves that a compaction that fails half-way harms nothing."""
        self.world.files.fail(steps + 1, sticky=True)
        try:
            self.was_compacted |= self.world.compact()
        except Exception:  # noqa: BLE001 - whatever it is, the machine stops here
            self.was_compacted = True
        self.crash()

    @rule()
    def crash(self):
        end = self.log.end_offset
        self.world.crash()
        assert self.log.quarantined is None
        assert self.flushed <= self.log.end_offset <= end
        assert self.log.end_offset in self.batch_ends
        assert self.log.flushed_offset == self.log.end_offset
        assert self.log.start_offset <= self.largest_start
        self.forget_from(self.log.end_offset)

    @rule()
    def kill(self):
        """The process dies, the machine does not: everything is there, and counts as on disk."""
        end = self.log.end_offset
        self.world.kill()
        assert self.log.quarantined is None
        assert self.log.end_offset == self.log.flushed_offset == end
        self.forget_from(end)

    @rule()
    def restart(self):
        self.world.restart()
        assert self.log.quarantined is None
        assert self.world.directory.was_clean
        assert self.log.end_offset == max(self.batch_ends)
        assert self.log.start_offset == self.largest_start
        self.flushes.clear()
        self.flushed = self.log.end_offset

    def forget_from(self, end):
        self.records = {at: record for at, record in self.records.items() if at < end}
        self.batch_ends = {each for each in self.batch_ends if each <= end}
        self.flushes.clear()
        self.flushed = end
        self.largest_start = self.log.start_offset
        self.owners = {at: producer for at, producer in self.owners.items() if at < end}
        undone = {
            at: marker for at, marker in sorted(self.markers.items(), reverse=True) if at >= end
        }
        for producer, first, _ in undone.values():
            self.open_transactions[producer] = first
        self.markers = {at: marker for at, marker in self.markers.items() if at < end}
        self.open_transactions = {
            producer: first for producer, first in self.open_transactions.items() if first < end
        }
        for facts in self.log._state.producers.producers():
            self.sequences[facts.producer_id] = facts.last_sequence + 1
        known = {facts.producer_id for facts in self.log._state.producers.producers()}
        self.sequences = {each: number for each, number in self.sequences.items() if each in known}
        self.last_batch = {
            producer: sent for producer, sent in self.last_batch.items() if sent[1] < end
        }

    @invariant()
    def readers_see_the_model(self):
        if not hasattr(self, "world"):
            return
        log = self.log
        start, end = log.start_offset, log.high_watermark
        expected = {at: record for at, record in self.records.items() if start <= at < end}
        found = {record.offset: record for record in read_all(log) if record.offset in self.records}
        if self.was_compacted:
            assert found.items() <= expected.items()
            self.check_last_values(found, expected)
        else:
            assert found == expected

    def check_last_values(self, found, expected):
        """Of every key the last committed value is there; without it, no older one is."""
        void = self.offsets_of_transactions(committed=False)
        last = {record.key: record for at, record in sorted(expected.items()) if at not in void}
        for key, record in last.items():
            of_key = [each for at, each in found.items() if each.key == key and at not in void]
            if record.value is None and record.offset not in found:
                assert of_key == []
            else:
                assert max(each.offset for each in of_key) == record.offset

    def offsets_of_transactions(self, *, committed):
        """Records that belong to a transaction which was committed, or was not (or not yet)."""
        committed_offsets = {
            at
            for marker, (producer, first, commit) in self.markers.items()
            for at in range(first, marker)
            if commit and self.owners.get(at) == producer
        }
        return committed_offsets if committed else self.owners.keys() - committed_offsets

    @invariant()
    def readers_of_committed_records_are_told_what_was_aborted(self):
        if not hasattr(self, "world"):
            return
        log, offset, found = self.log, self.log.start_offset, set()
        while offset < log.last_stable_offset:
            data, aborted = log.reader.read(offset, 400, committed_only=True)
            batches = list(headers(data))
            if not batches:
                break
            for _, header in batches:
                void = any(
                    each.producer_id == header.producer_id
                    and each.first_offset <= header.base_offset <= each.last_offset
                    for each in aborted
                )
                if header.is_transactional and not header.is_control and not void:
                    found.add(header.base_offset)
            offset = batches[-1][1].next_offset
        committed = self.offsets_of_transactions(committed=True)
        assert found <= committed
        if not self.was_compacted:
            stable = range(log.start_offset, log.last_stable_offset)
            assert found == {at for at in committed if at in stable}

    @invariant()
    def the_stable_offset_is_where_the_first_open_transaction_begins(self):
        if hasattr(self, "world"):
            log = self.log
            first = min(self.open_transactions.values(), default=log.high_watermark)
            expected = min(first, log.high_watermark)
            assert log.last_stable_offset == max(
                expected, min(log.start_offset, log.high_watermark)
            )


PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink)

TestLog = LogMachine.TestCase
TestLog.settings = settings(deadline=None, max_examples=150, stateful_step_count=40, phases=PHASES)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_the_same_for_a_long_time(part: int):
    """In parts, because Hypothesis keeps every example of a run in memory: 150 kB each."""
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            settings.get_profile("explore"),
            max_examples=1_000,
            stateful_step_count=60,
            phases=PHASES,
        ),
    )
