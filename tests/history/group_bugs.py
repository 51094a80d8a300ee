"""Bugs in how groups are kept, each of which the checker must find."""

from dataclasses import replace

from strom.broker import groups
from strom.coordination.groups.classic import membership
from strom.coordination.groups.offsets import CommittedOffsets
from strom.coordination.groups.records import OffsetCommitted
from tests.history.planting import Plant, around


def forget_offsets_at_restart() -> None:
    """Commits are kept in memory, and written where no coordinator reads them."""

    @around(groups, "encode")
    def encode(original, record):
        if isinstance(record, OffsetCommitted):
            record = replace(record, group="nobody")
        return original(record)


def keep_first_offset() -> None:
    """The first commit of a partition counts for ever."""

    @around(CommittedOffsets, "replay")
    def replay(original, self, record, *rest):
        if isinstance(record, OffsetCommitted) and record.partition in self.of(record.group):
            return
        original(self, record, *rest)


def give_partitions_twice() -> None:
    """Every member is given what the best served one is."""

    @around(membership, "_assign")
    def assign(original, rebalance, assignments):
        largest = max(assignments.values(), key=len)
        original(rebalance, dict.fromkeys(assignments, largest))


BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (forget_offsets_at_restart, keep_first_offset, give_partitions_twice)
}
