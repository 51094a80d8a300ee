"""What many acknowledgements of one partition look at: they are applied in one turn of the event loop."""

import pytest

from strom.coordination.groups.share.partitions.acquisition import AcquireLimits, Acquisition
from strom.coordination.groups.share.partitions.ranges import Ranges, RecordState, StateBatch
from strom.coordination.groups.share.partitions.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    Rules,
    SharePartition,
)
from strom.model.errors import ApiError, ErrorCode

MANY = 100
RULES = Rules(delivery_limit=5, max_in_flight=MANY, lock_ms=1000)
ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE


@pytest.fixture
def looks(monkeypatch):
    """One entry for each look at ranges, with their number."""
    counted: list[int] = []

    def count_in(look):
        def counting(self, first, last):
            found = look(self, first, last)
            counted.append(len(found))
            return found

        return counting

    for name in ("over", "split_out"):
        monkeypatch.setattr(Ranges, name, count_in(getattr(Ranges, name)))
    return counted


def acquired(start=0):
    """A partition whose records are acquired one by one."""
    partition = SharePartition(start)
    taking = Acquisition(partition, "m", AcquireLimits(MANY, 1), RULES, 0)
    for offset in range(start, start + MANY):
        taking.offer(offset, offset)
    assert len(taking.finish()) == MANY
    return partition


def acknowledge(partition, acknowledgements):
    return partition.acknowledge("m", acknowledgements, RULES, 0)


def test_overlapping_acknowledgements_are_refused_without_a_look_at_the_ranges(looks):
    partition = acquired()
    looks.clear()
    with pytest.raises(ApiError) as refused:
        acknowledge(partition, [Acknowledgement(0, MANY - 1, [ACCEPT])] * 1000)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert not looks


def test_adjacent_acknowledgements_of_a_final_type_are_applied_together(looks):
    partition = acquired()
    looks.clear()
    types = [ACCEPT] * (MANY // 2) + [RELEASE] * 2 + [ACCEPT] * (MANY // 2 - 2)
    changes = acknowledge(
        partition, [Acknowledgement(offset, offset, [type_]) for offset, type_ in enumerate(types)]
    )
    assert looks == [1] * MANY + [MANY // 2, 1, 1, MANY // 2 - 2]  # checks come first
    assert changes.batches == [
        StateBatch(MANY // 2, MANY // 2 + 1, RecordState.AVAILABLE, 1),
        StateBatch(MANY // 2 + 2, MANY - 1, RecordState.ACKNOWLEDGED, 1),
    ]
    assert [one.first for one in partition.ranges] == [MANY // 2, MANY // 2 + 1, MANY // 2 + 2]


def test_types_of_records_before_the_start_are_not_looked_for(looks):
    partition = acquired(start=MANY)
    looks.clear()
    types = [ACCEPT, RELEASE] * (MANY // 2) + [ACCEPT]
    changes = acknowledge(partition, [Acknowledgement(0, MANY, types)])
    assert looks == [1, 1]
    assert changes.start_moved
    assert partition.start_offset == MANY + 1
