from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.storage.producer_state import (
    BatchMetadata,
    CompletedTransaction,
    ProducerInfo,
    ProducerStates,
)
from strom.wire.kafka.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from strom.wire.kafka.records import ControlType, Marker

LAST_SEQUENCE = 2**31 - 1
COMMIT = Marker(ControlType.COMMIT, 0)
ABORT = Marker(ControlType.ABORT, 0)


def batch(offset, sequence, *, count=1, producer=1, epoch=0, transactional=False, time=0):
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL_BIT if transactional else 0,
        last_offset_delta=count - 1,
        base_timestamp=time,
        max_timestamp=time,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def control(offset, *, producer=1, epoch=0, time=0):
    header = batch(offset, -1, producer=producer, epoch=epoch, time=time)
    return header._replace(attributes=TRANSACTIONAL_BIT | CONTROL_BIT)


def states_after(*headers):
    states = ProducerStates()
    for header in headers:
        states.update(header)
    return states


def refusal(states, header, marker=None):
    with pytest.raises(ApiError) as caught:
        states.check(header, marker)
    return caught.value.code


def test_batches_without_a_producer_are_not_remembered():
    states = states_after(batch(0, -1, producer=-1))
    assert len(states) == 0
    assert states.check(batch(1, -1, producer=-1)) is None


def test_the_next_sequence_is_accepted_and_a_gap_refused():
    states = states_after(batch(0, 0, count=3))
    assert states.check(batch(3, 3)) is None
    assert refusal(states, batch(3, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_of_each_of_the_last_five_batches_is_answered_with_its_offsets():
    states = states_after(*(batch(100 + 2 * i, 2 * i, count=2, time=i) for i in range(6)))
    for i in range(1, 6):
        duplicate = states.check(batch(999, 2 * i, count=2))
        assert duplicate == BatchMetadata(2 * i, 2 * i + 1, 100 + 2 * i, 101 + 2 * i, i)
    assert refusal(states, batch(999, 0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_same_first_sequence_with_another_length_is_no_duplicate():
    states = states_after(batch(0, 0, count=3))
    assert refusal(states, batch(3, 0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero():
    states = states_after(batch(0, LAST_SEQUENCE - 1, count=2))
    assert states.check(batch(2, 0)) is None
    wrapping = states_after(batch(0, LAST_SEQUENCE - 1, count=4))
    assert wrapping.check(batch(4, 2)) is None
    assert wrapping.check(batch(4, LAST_SEQUENCE - 1, count=4)) is not None


def test_an_unknown_producer_may_begin_anywhere():
    assert ProducerStates().check(batch(0, 17)) is None


def test_a_new_epoch_begins_at_zero_and_ends_the_old_one():
    states = states_after(batch(0, 0))
    assert refusal(states, batch(1, 1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(batch(1, 0, epoch=1)) is None
    states.update(batch(1, 0, epoch=1))
    assert refusal(states, batch(2, 1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(states, batch(2, 0, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_of_a_higher_epoch_fences_the_old_one():
    states = states_after(batch(0, 0, transactional=True))
    states.update(control(1, epoch=1), ABORT)
    late = batch(2, 1, transactional=True)
    assert refusal(states, late) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check(batch(2, 0, epoch=1, transactional=True)) is None


def test_a_transaction_is_open_from_its_first_batch_to_its_marker():
    states = states_after(
        batch(0, 0, producer=5),
        batch(1, 0, producer=7, transactional=True),
        batch(2, 0, producer=8, transactional=True),
        batch(3, 1, producer=7, transactional=True),
    )
    assert states.first_open_offset == 1
    assert states.update(control(4, producer=7), COMMIT) == CompletedTransaction(7, 1, 4, False)
    assert states.first_open_offset == 2
    assert states.update(control(5, producer=8), ABORT) == CompletedTransaction(8, 2, 5, True)
    assert states.first_open_offset is None


def test_a_marker_without_a_transaction_completes_nothing():
    assert ProducerStates().update(control(0), COMMIT) is None


def test_an_emptied_control_batch_ends_nothing_but_has_the_epoch():
    states = states_after(batch(0, 0, transactional=True))
    assert states.update(control(1, epoch=1)) is None
    assert states.first_open_offset == 0
    assert refusal(states, batch(2, 1, transactional=True)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_sequence_goes_on_after_a_marker_of_the_same_epoch():
    states = states_after(batch(0, 0, transactional=True))
    states.update(control(1), COMMIT)
    assert states.check(batch(2, 1, transactional=True)) is None


def test_a_plain_batch_within_an_open_transaction_is_refused():
    states = states_after(batch(0, 0, transactional=True))
    assert refusal(states, batch(1, 1)) is ErrorCode.INVALID_TXN_STATE


def test_the_marker_of_an_old_coordinator_is_refused():
    states = ProducerStates()
    states.update(control(0), Marker(ControlType.COMMIT, 4))
    old = Marker(ControlType.COMMIT, 3)
    assert refusal(states, control(1), old) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert states.check(control(1), Marker(ControlType.COMMIT, 4)) is None
    assert refusal(states, control(1, epoch=-1), COMMIT) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_broker_writes_in_a_producers_name_without_a_sequence():
    states = states_after(batch(0, -1, epoch=3, transactional=True))
    assert states.first_open_offset == 0
    own = batch(1, -1, epoch=3, transactional=True)
    assert states.check(own, from_client=False) is None
    with pytest.raises(ApiError):
        states.check(own._replace(producer_epoch=2), from_client=False)


def test_idle_producers_are_forgotten_but_not_in_a_transaction():
    states = states_after(
        batch(0, 0, producer=1, time=1000),
        batch(1, 0, producer=2, time=2000),
        batch(2, 0, producer=3, time=0, transactional=True),
    )
    states.expire(now_ms=2000, max_idle_ms=1000)
    assert [facts.producer_id for facts in states.producers()] == [2, 3]


def test_producers_are_described():
    states = states_after(batch(5, 0, count=4, epoch=2, time=77, transactional=True))
    assert list(states.producers()) == [ProducerInfo(1, 2, 3, 77, None, 5, 8)]
    states.update(control(9, epoch=2, time=80), Marker(ControlType.COMMIT, 6))
    assert list(states.producers()) == [ProducerInfo(1, 2, 3, 80, 6, None, 8)]


def a_snapshot():
    states = states_after(
        *(batch(i, i, producer=3, time=i) for i in range(7)),
        batch(7, 0, producer=9, epoch=4, transactional=True),
        batch(8, 0, producer=4, transactional=True),
    )
    states.update(control(9, producer=4), ABORT)
    return states.snapshot(10)


def test_every_truncation_of_a_snapshot_is_noticed():
    data = a_snapshot()
    for cut in range(len(data)):
        with pytest.raises(CorruptData):
            ProducerStates.restore(data[:cut])
    with pytest.raises(CorruptData):
        ProducerStates.restore(data + b"\0")


def test_every_flipped_bit_of_a_snapshot_is_noticed():
    data = a_snapshot()
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptData):
                ProducerStates.restore(bytes(damaged))


def test_a_snapshot_restores_the_order_of_open_transactions():
    states = ProducerStates()
    states.update(batch(0, 0, producer=1, transactional=True))
    states.update(batch(1, 0, producer=2, transactional=True))
    states.update(control(2, producer=1), COMMIT)
    states.update(batch(3, 1, producer=1, transactional=True))
    restored, next_offset = ProducerStates.restore(states.snapshot(4))
    assert next_offset == 4
    assert restored.first_open_offset == 1
    assert list(restored.producers()) == list(states.producers())


@dataclass
class NaiveProducer:
    """Everything a producer ever wrote, and the rules as the protocol's texts word them."""

    epoch: int
    written: list[tuple[int, int, int]] = field(default_factory=list)  # sequences, first offset
    open_since: int | None = None

    def verdict(self, header):
        last = (header.base_sequence + header.record_count - 1) % 2**31
        if header.producer_epoch == self.epoch:
            for first_sequence, last_sequence, offset in self.written[-5:]:
                if (first_sequence, last_sequence) == (header.base_sequence, last):
                    return offset
        if header.producer_epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        current = self.written if header.producer_epoch == self.epoch else []
        expected = (current[-1][1] + 1) % 2**31 if current else 0
        if header.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.open_since is not None and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None


SEQUENCES = st.integers(0, 12) | st.integers(LAST_SEQUENCE - 6, LAST_SEQUENCE)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["next", "next", "next", "any", "again", "commit", "abort", "restart"]),
        st.integers(1, 2),
        st.integers(0, 2),
        SEQUENCES,
        st.integers(1, 4),
        st.booleans(),
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(STEPS)
def test_it_behaves_like_the_naive_model(steps):
    states, offset = ProducerStates(), 0
    model: dict[int, NaiveProducer] = {}
    sent: list[BatchHeader] = []
    for action, producer, epoch, sequence, count, transactional in steps:
        if action == "restart":
            states, _ = ProducerStates.restore(states.snapshot(offset))
            continue
        known = model.get(producer)
        if action in ("commit", "abort"):
            epoch = max(epoch, known.epoch) if known else epoch
            done = states.update(
                control(offset, producer=producer, epoch=epoch),
                COMMIT if action == "commit" else ABORT,
            )
            known = model.setdefault(producer, NaiveProducer(epoch))
            if known.open_since is None:
                assert done is None
            else:
                expected = (producer, known.open_since, offset, action == "abort")
                assert done == expected
            known.open_since = None
            if epoch != known.epoch:
                known.epoch, known.written = epoch, []
            offset += 1
        else:
            if action == "next" and known:
                epoch = known.epoch
                sequence = (known.written[-1][1] + 1) % 2**31 if known.written else 0
            header = batch(
                offset, sequence, count=count, producer=producer, epoch=epoch,
                transactional=transactional,
            )  # fmt: skip
            if action == "again" and sent:
                header = sent[sequence % len(sent)]
            known = model.get(header.producer_id)
            verdict = known.verdict(header) if known else None
            if isinstance(verdict, ErrorCode):
                assert refusal(states, header) is verdict
                continue
            duplicate = states.check(header)
            if duplicate is not None:
                assert duplicate.base_offset == verdict
                continue
            assert verdict is None
            header = header._replace(base_offset=offset)
            states.update(header)
            sent.append(header)
            known = model.setdefault(header.producer_id, NaiveProducer(header.producer_epoch))
            if header.producer_epoch != known.epoch:
                known.epoch, known.written = header.producer_epoch, []
            known.written.append((header.base_sequence, header.last_sequence, offset))
            if header.is_transactional and known.open_since is None:
                known.open_since = offset
            offset += header.record_count
        opened = [p.open_since for p in model.values() if p.open_since is not None]
        assert states.first_open_offset == min(opened, default=None)
