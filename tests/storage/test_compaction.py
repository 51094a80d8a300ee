from dataclasses import dataclass, field

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.model.errors import CorruptData
from strom.model.topic_settings import TopicSettings
from strom.storage.compaction import AbortedTransactions, Cleaner, KeyMap, build_key_map
from strom.storage.compaction_plan import CompactionPlan, group_segments, plan_compaction
from strom.storage.producer_state import ProducerStates
from strom.storage.retention import SegmentInfo
from strom.storage.transaction_index import AbortedTransaction
from strom.wire.kafka.batch import headers
from strom.wire.kafka.compression import Codec
from strom.wire.kafka.records import (
    ControlType,
    Marker,
    Record,
    build_batch,
    build_marker,
    read_marker,
    read_records,
)

RETENTION = 1000
TOPIC = TopicSettings().override(
    {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "1000"}
)


@dataclass
class SmallLog:
    """A log in memory that is appended to, rolled, compacted and replayed. The last segment is
    active, and each one is a base offset with the bytes of its batches."""

    segments: list[tuple[int, bytearray]] = field(default_factory=lambda: [(0, bytearray())])
    states: ProducerStates = field(default_factory=ProducerStates)
    next_offset: int = 0
    first_dirty: int = 0
    now: int = 10_000

    def __post_init__(self):
        self.sequences = {}
        self.epochs = {}
        self.aborted = []
        self.written = []  # every record ever, with the producer of its transaction or None

    def append(self, *pairs, codec=0, producer=None, transactional=False, sequenced=True):
        records = [
            Record(self.next_offset + i, self.now + i, key, value)
            for i, (key, value) in enumerate(pairs)
        ]
        more = {}
        if producer is not None:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + len(records)
            more = {
                "producer_id": producer,
                "producer_epoch": self.epochs.get(producer, 0),
                "base_sequence": sequence if sequenced else -1,
                "transactional": transactional,
            }
        self._add(build_batch(records, codec=codec, base_offset=self.next_offset, **more))
        self.written += [(record, producer if transactional else None) for record in records]

    def end(self, producer, kind, *, bump=False):
        if bump:
            self.epochs[producer] = self.epochs.get(producer, 0) + 1
            self.sequences[producer] = 0
        marker = build_marker(
            Marker(kind, 0),
            producer_id=producer,
            producer_epoch=self.epochs.get(producer, 0),
            timestamp=self.now,
            base_offset=self.next_offset,
        )
        completed = self._add(marker)
        if completed is not None and completed.aborted:
            _, first, last, _ = completed
            self.aborted.append(AbortedTransaction(producer, first, last, self.last_stable_offset))

    def _add(self, batch):
        ((_, header),) = headers(batch)
        marker = read_marker(batch, 0, header) if header.is_control else None
        self.segments[-1][1].extend(batch)
        self.next_offset = header.next_offset
        return self.states.update(header, marker)

    def roll(self):
        if self.segments[-1][1]:
            self.segments.append((self.next_offset, bytearray()))

    @property
    def last_stable_offset(self):
        first_open = self.states.first_open_offset
        return self.next_offset if first_open is None else first_open

    def facts(self):
        ends = [base for base, _ in self.segments[1:]] + [self.next_offset]
        last = len(self.segments) - 1
        return [
            SegmentInfo(base, end, len(data), 0, 0, i == last)
            for i, ((base, data), end) in enumerate(zip(self.segments, ends, strict=True))
        ]

    def due(self):
        return plan_compaction(
            self.facts(),
            now_ms=self.now,
            settings=TOPIC,
            first_dirty_offset=self.first_dirty,
            last_stable_offset=self.last_stable_offset,
        )

    def compact(self, plan=None, max_keys=100):
        """One run, as the module's text says it; the plan it followed, if there was one."""
        plan = plan or self.due()
        if plan is None:
            return None
        aborted = AbortedTransactions(self.aborted)
        dirty = [d for (_, d), f in self._with_facts() if f.next_offset > plan.first_dirty_offset]
        keys = build_key_map(dirty, plan, aborted, max_keys)
        producers = self.states.producers()
        cleaner = Cleaner(
            keys, now_ms=self.now, settings=TOPIC, aborted=aborted, producers=producers
        )
        bytes_of = dict(self.segments)
        touched = [s for s in plan.segments if s.base_offset < keys.end_offset]
        cleaned = [
            (
                group[0].base_offset,
                bytearray(
                    b"".join(
                        batch.data
                        for segment in group
                        for batch in cleaner.clean(bytes_of[segment.base_offset])
                    )
                ),
            )
            for group in group_segments(touched, max_bytes=300)
        ]
        self.segments = cleaned + self.segments[len(touched) :]
        self.first_dirty = keys.end_offset
        return plan

    def _with_facts(self):
        return zip(self.segments, self.facts(), strict=True)

    def compact_all_again(self):
        """A run over everything that may be touched, with nothing dirty in it."""
        stable = self.last_stable_offset
        closed = tuple(f for f in self.facts() if not f.active and f.next_offset <= stable)
        if closed:
            end = closed[-1].next_offset
            self.compact(CompactionPlan(closed, end, end))

    def batches(self):
        return [(h, d, p) for _, d in self.segments for p, h in headers(d)]

    def records(self):
        return [
            record
            for header, data, position in self.batches()
            if not header.is_control
            for record in read_records(data, position, header)
        ]

    def replayed(self):
        states = ProducerStates()
        for header, data, position in self.batches():
            marker = read_marker(data, position, header) if header.is_control else None
            states.update(header, marker)
        return states

    def is_aborted(self, record, producer):
        return any(
            t.producer_id == producer and t.first_offset <= record.offset <= t.last_offset
            for t in self.aborted
        )


def offsets(log):
    return [record.offset for record in log.records()]


def closed_log(*pairs, **more):
    """A log with one record per batch, in one closed segment."""
    log = SmallLog()
    for pair in pairs:
        log.append(pair, **more)
    log.roll()
    return log


def test_the_last_value_of_every_key_stays_at_its_offset():
    log = closed_log((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"), (b"b", b"5"))
    log.compact()
    assert [(r.offset, r.key, r.value) for r in log.records()] == [
        (2, b"a", b"3"),
        (3, b"c", b"4"),
        (4, b"b", b"5"),
    ]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_loses_records_keeps_its_offsets_codec_and_times(codec):
    log = SmallLog()
    log.append((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), codec=codec, producer=5)
    log.append((b"a", b"9"), (b"c", b"9"), codec=codec)
    log.roll()
    log.compact()
    header, data, position = log.batches()[0]
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 1)
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (5, 0, 2)
    assert header.codec == codec
    (record,) = read_records(data, position, header)
    assert record == Record(1, log.now + 1, b"b", b"2")
    assert header.max_timestamp == record.timestamp


def test_an_untouched_batch_stays_byte_for_byte():
    log = closed_log((b"a", b"1"), (b"b", b"2"))
    before = bytes(log.segments[0][1])
    log.compact()
    assert log.segments[0][1] == before


def test_records_without_a_key_go():
    log = closed_log((None, b"1"), (b"b", b"2"))
    log.compact()
    assert offsets(log) == [1]


def test_the_active_segment_wins_nothing_before_it_is_closed():
    log = closed_log((b"a", b"1"))
    log.append((b"a", b"2"))
    log.compact()
    assert offsets(log) == [0, 1]


def test_a_tombstone_stays_until_its_horizon_and_then_goes():
    log = closed_log((b"a", b"1"), (b"b", b"1"), (b"a", None))
    log.compact()
    assert offsets(log) == [1, 2]
    header, data, position = log.batches()[-1]
    assert header.delete_horizon == log.now + RETENTION
    assert read_records(data, position, header)[0].timestamp == log.now
    (foreign,) = DefaultRecordBatch(bytes(data[position:]))
    assert (foreign.timestamp, foreign.key, foreign.value) == (log.now, b"a", None)
    log.now += RETENTION - 1
    log.compact_all_again()
    assert offsets(log) == [1, 2]
    assert log.batches()[-1][0].delete_horizon == header.delete_horizon
    log.now += 1
    log.compact_all_again()
    assert offsets(log) == [1]


def test_a_value_beside_an_expired_tombstone_keeps_its_time():
    log = SmallLog()
    log.append((b"a", None), (b"b", b"1"))
    log.roll()
    log.compact()
    log.now += RETENTION
    log.compact_all_again()
    assert log.records() == [Record(1, 10_001, b"b", b"1")]


def test_aborted_records_go_and_never_win():
    log = SmallLog()
    log.append((b"a", b"old"))
    log.append((b"a", b"aborted"), producer=1, transactional=True)
    log.end(1, ControlType.ABORT)
    log.append((b"a", b"committed"), producer=1, transactional=True)
    log.end(1, ControlType.COMMIT)
    log.append((b"a", b"aborted"), producer=1, transactional=True)
    log.end(1, ControlType.ABORT)
    log.roll()
    log.compact()
    assert [r.value for r in log.records()] == [b"committed"]


def test_an_open_transaction_keeps_its_segment_and_all_later_ones_from_compaction():
    log = closed_log((b"a", b"1"), (b"a", b"2"))
    log.append((b"a", b"open"), producer=1, transactional=True)
    log.roll()
    log.append((b"a", b"4"))
    log.append((b"a", b"5"))
    log.roll()
    log.compact()
    assert offsets(log) == [1, 2, 3, 4]


def kinds(log):
    return ["marker" if header.is_control else "data" for header, _, _ in log.batches()]


def test_a_marker_goes_after_its_data_and_its_horizon():
    log = SmallLog()
    log.append((b"a", b"1"), producer=1, transactional=True)
    log.end(1, ControlType.COMMIT)
    log.append((b"a", b"2"), producer=1)
    log.roll()
    log.compact()
    assert kinds(log) == ["marker", "data"]
    assert log.batches()[0][0].delete_horizon == log.now + RETENTION, "its time begins at once"
    log.now += RETENTION - 1
    log.compact_all_again()
    assert kinds(log) == ["marker", "data"]
    log.now += 1
    log.compact_all_again()
    assert kinds(log) == ["data"]


def test_the_marker_of_an_emptied_transaction_goes_although_an_earlier_one_has_data():
    log = SmallLog()
    log.append((b"stays", b"1"), producer=1, transactional=True)
    log.end(1, ControlType.COMMIT)
    log.append((b"a", b"1"), producer=1, transactional=True)
    log.end(1, ControlType.COMMIT)
    log.append((b"a", b"2"), producer=1)
    log.roll()
    log.compact()
    for _ in range(2):
        log.compact_all_again()
        log.now += RETENTION
    assert kinds(log) == ["data", "marker", "data"]


def test_a_marker_stays_while_data_of_its_transaction_does():
    log = SmallLog()
    log.append((b"a", b"1"), producer=1, transactional=True)
    log.end(1, ControlType.COMMIT)
    log.roll()
    for _ in range(3):
        log.compact_all_again()
        log.now += RETENTION
    assert kinds(log) == ["data", "marker"]


def test_a_producers_last_batch_stays_empty_so_that_its_sequence_survives():
    log = SmallLog()
    log.append((b"a", b"1"), (b"a", b"2"), producer=7, codec=Codec.GZIP)
    log.append((b"a", b"3"))
    log.roll()
    log.compact()
    header, _, _ = log.batches()[0]
    assert (header.record_count, header.base_offset, header.last_offset) == (0, 0, 1)
    assert [f.last_sequence for f in log.replayed().producers()] == [1]
    log.append((b"b", b"4"), producer=7)
    log.roll()
    log.compact()
    assert offsets(log) == [2, 3]
    assert len(log.batches()) == 2


def test_the_marker_that_began_an_epoch_stays_empty():
    log = SmallLog()
    log.append((b"a", b"1"), producer=7, transactional=True)
    log.end(7, ControlType.ABORT, bump=True)
    log.append((b"a", b"2"))
    log.roll()
    for _ in range(4):
        log.compact_all_again()
        log.now += RETENTION
    ((header, _, _), _) = log.batches()
    assert header.is_control
    assert header.record_count == 0
    assert [f.producer_epoch for f in log.replayed().producers()] == [1]


def test_of_a_producer_without_sequences_the_last_marker_stays_empty():
    """So offsets of groups are committed in transactions; all their markers would be a lot."""
    log = SmallLog()
    for number in range(5):
        log.append((b"a", b"%d" % number), producer=7, transactional=True, sequenced=False)
        log.end(7, ControlType.COMMIT)
        log.now += 1
    log.append((b"a", b"last"))
    log.roll()
    log.compact()
    for _ in range(4):
        log.compact_all_again()
        log.now += RETENTION
    ((header, _, _), (data, _, _)) = log.batches()
    assert (header.is_control, header.record_count, header.last_offset) == (True, 0, 9)
    assert not data.is_control
    assert [f.producer_epoch for f in log.replayed().producers()] == [0]


def test_an_empty_batch_of_a_transaction_keeps_its_marker():
    """Else the transaction would look open after a start without a snapshot of producers."""
    log = SmallLog()
    log.append((b"a", b"1"), producer=7, transactional=True)
    log.end(7, ControlType.COMMIT)
    log.append((b"a", b"2"))
    log.roll()
    log.compact()
    for _ in range(4):
        log.compact_all_again()
        log.now += RETENTION
    assert kinds(log) == ["data", "marker", "data"]
    assert log.batches()[0][0].record_count == 0
    assert log.replayed().first_open_offset is None


def test_a_full_key_map_cleans_as_far_as_it_reached_and_the_next_run_goes_on():
    log = closed_log((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"a", b"3"))
    log.compact(max_keys=2)
    assert log.first_dirty == 3
    assert offsets(log) == [1, 2, 3, 4]
    log.compact(max_keys=2)
    assert log.first_dirty == 5
    assert offsets(log) == [1, 3, 4]


def test_a_tombstone_that_the_key_map_did_not_reach_does_not_go_before_what_it_deletes():
    log = SmallLog()
    log.append((b"a", b"1"))
    log.append((b"b", None), (b"c", b"1"), (b"a", None))
    log.roll()
    log.compact(max_keys=2)
    assert log.first_dirty == 2
    log.now += RETENTION
    log.compact(max_keys=1)
    assert log.first_dirty == 3
    assert offsets(log) == [0, 2, 3]
    log.compact(max_keys=1)
    assert b"1" not in {record.value for record in log.records() if record.key == b"a"}


def test_a_tombstones_time_begins_only_when_the_key_map_has_reached_it():
    log = SmallLog()
    log.append((b"a", b"1"), (b"b", b"1"), (b"c", None))
    log.roll()
    log.compact(max_keys=2)
    assert log.batches()[0][0].delete_horizon is None
    log.compact(max_keys=2)
    assert log.batches()[0][0].delete_horizon == log.now + RETENTION


def test_long_keys_count_as_a_whole():
    long = b"x" * 5000
    keys = KeyMap(max_keys=10, first_offset=0)
    keys.add(long + b"1", 3)
    assert keys.is_superseded(long + b"1", 2)
    assert not keys.is_superseded(long + b"2", 2)
    assert not keys.is_superseded(long + b"1", 3)


def test_a_damaged_batch_never_gets_a_new_checksum():
    log = closed_log((b"a", b"1"), (b"a", b"2"))
    data = log.segments[0][1]
    data[-3] ^= 1
    plan = log.due()
    none_aborted = AbortedTransactions([])
    with pytest.raises(CorruptData):
        build_key_map([data], plan, none_aborted)
    cleaner = Cleaner(KeyMap(1, 0), now_ms=0, settings=TOPIC, aborted=none_aborted, producers=[])
    with pytest.raises(CorruptData):
        list(cleaner.clean(data))
    with pytest.raises(CorruptData):
        list(cleaner.clean(data[:30]))


def test_aborted_transactions_are_found_by_producer_and_offset():
    aborted = AbortedTransactions(
        [
            AbortedTransaction(1, 10, 20, 10),
            AbortedTransaction(1, 30, 40, 30),
        ]
    )

    def holding(producer, offset, transactional=True):
        batch = build_batch(
            [Record(offset, 0, b"", b"")],
            base_offset=offset,
            producer_id=producer,
            transactional=transactional,
        )
        ((_, header),) = headers(batch)
        found = aborted.holding(header)
        return found and found.first_offset

    assert [holding(1, at) for at in (9, 10, 20, 25, 30, 41)] == [None, 10, 10, None, 30, None]
    assert holding(2, 50) is None
    assert holding(1, 15, transactional=False) is None


KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e" * 40])
PAIRS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), min_size=1, max_size=4).map(
    tuple
)
STEP = st.one_of(
    st.tuples(st.just("plain"), PAIRS, st.sampled_from(Codec)),
    st.tuples(st.just("idempotent"), PAIRS, st.integers(1, 2)),
    st.tuples(st.just("transaction"), PAIRS, st.integers(3, 5)),
    st.tuples(st.just("commit"), st.booleans(), st.integers(3, 5)),
    st.tuples(st.just("abort"), st.booleans(), st.integers(3, 5)),
    st.tuples(st.just("roll"), st.none(), st.none()),
    st.tuples(st.just("roll"), st.none(), st.none()),
)


def write(log, step):
    action, first, second = step
    if action == "plain":
        log.append(*first, codec=second)
    elif action == "idempotent":
        log.append(*first, producer=second)
    elif action == "transaction":
        log.append(*first, producer=second, transactional=True)
    elif action == "roll":
        log.roll()
    else:
        log.end(second, ControlType[action.upper()], bump=first)


def producer_facts(states):
    return {
        (f.producer_id, f.producer_epoch, f.last_sequence, f.last_data_offset)
        for f in states.producers()
    }


def expected_records(log, end, *, with_tombstones):
    """The naive model: below `end`, the last record per key that no aborted transaction wrote."""
    below = [r for r, p in log.written if r.offset < end and not log.is_aborted(r, p)]
    last = {record.key: record for record in below}
    kept = {r.offset for r in last.values() if with_tombstones or r.value is not None}
    return [r for r, _ in log.written if r.offset >= end or r.offset in kept]


@settings(max_examples=400, deadline=None)
@given(st.lists(STEP, max_size=30), st.lists(STEP, max_size=10), st.integers(1, 6))
def test_it_leaves_what_the_naive_model_says(steps, more_steps, max_keys):
    log = SmallLog()
    for part in (steps, more_steps):
        for step in part:
            write(log, step)
        log.roll()
        end = max((p.end_offset for p in iter(lambda: log.compact(max_keys=max_keys), None)),
                  default=log.first_dirty)  # fmt: skip
        assert log.records() == expected_records(log, end, with_tombstones=True)
        log.compact_all_again()
        assert log.records() == expected_records(log, end, with_tombstones=True)
        assert producer_facts(log.replayed()) == producer_facts(log.states)
        assert log.replayed().first_open_offset == log.states.first_open_offset

    log.compact_all_again()
    stable = list(log.segments)
    log.compact_all_again()
    assert b"".join(d for _, d in log.segments) == b"".join(d for _, d in stable)

    log.now += RETENTION
    log.compact_all_again()
    assert log.records() == expected_records(log, log.first_dirty, with_tombstones=False)
    for _ in range(3):
        log.now += RETENTION
        log.compact_all_again()
    assert log.records() == expected_records(log, log.first_dirty, with_tombstones=False)
    assert producer_facts(log.replayed()) == producer_facts(log.states)
    assert log.replayed().first_open_offset == log.states.first_open_offset
