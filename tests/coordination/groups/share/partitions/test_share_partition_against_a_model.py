"""A share partition keeps ranges; the model here keeps every record on its own. They must agree."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strom.coordination.groups.share.partitions.acquisition import AcquireLimits, Acquisition
from strom.coordination.groups.share.partitions.ranges import RecordState, StateBatch
from strom.coordination.groups.share.partitions.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    Rules,
    SharePartition,
    StateChanges,
)
from strom.model.errors import ApiError

MEMBERS = ("ann", "bob", "cyd")
LOCK_MS = 10
FINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


@dataclass
class OneRecord:
    """What the model knows of one offset."""

    exists: bool = True
    state: RecordState = RecordState.AVAILABLE
    deliveries: int = 0
    member: str = ""
    deadline_ms: int = 0
    times_accepted: int = 0
    written: tuple[RecordState, int] = (RecordState.AVAILABLE, 0)


@dataclass
class LogBatch:
    """A batch of the log: offsets, and whether it holds records for consumers."""

    first: int
    last: int
    holds_records: bool


@dataclass
class Model:
    """Every record on its own."""

    records: dict[int, OneRecord] = field(default_factory=dict)

    def start(self, log_start: int, end: int) -> int:
        offset = log_start
        while offset < end and self.records[offset].state in FINAL:
            offset += 1
        return offset


class SharePartitionMachine(RuleBasedStateMachine):
    """Members acquire and acknowledge, locks time out, the log grows and shrinks, crashes happen."""

    @initialize(limit=st.integers(2, 6), in_flight=st.integers(3, 30), buries=st.booleans())
    def begin(self, limit: int, in_flight: int, buries: bool) -> None:
        self.group_rules = Rules(limit, in_flight, LOCK_MS, buries=buries)
        self.partition = SharePartition(0)
        self.model = Model()
        self.log: list[LogBatch] = []
        self.log_start = 0
        self.log_end = 0
        self.now_ms = 0
        self.dead: list[tuple[int, int]] = []
        self.persisted: list[tuple[int, list[StateBatch]]] = [(0, [])]

    # --- the log -------------------------------------------------------------------------------

    @rule(
        size=st.integers(1, 6),
        gap=st.sampled_from([0, 0, 0, 2]),
        control=st.sampled_from([0, 0, 1]),
    )
    def produce(self, size: int, gap: int, control: int) -> None:
        first = self.log_end + gap
        for offset in range(self.log_end, first + size):
            self.model.records[offset] = OneRecord(exists=offset >= first and not control)
        self.log.append(LogBatch(first, first + size - 1, not control))
        self.log_end = first + size

    @rule(share=st.floats(0, 1))
    def lose_the_oldest(self, share: float) -> None:
        self.log_start += int((self.log_end - self.log_start) * share * 0.3)
        self.partition.on_log_changed(self.log_start, self.log_end)
        for offset in range(self.log_start):
            one = self.model.records[offset]
            if one.state not in FINAL:
                one.state = RecordState.ARCHIVED

    # --- members -------------------------------------------------------------------------------

    @rule(
        member=st.sampled_from(MEMBERS),
        wanted=st.integers(1, 12),
        batch_size=st.integers(1, 8),
        strict=st.booleans(),
    )
    def acquire(self, member: str, wanted: int, batch_size: int, strict: bool) -> None:
        offset = self.partition.next_fetch_offset(self.group_rules.max_in_flight)
        if offset is None:
            return
        wish = AcquireLimits(wanted, batch_size, strict)
        taking = Acquisition(self.partition, member, wish, self.group_rules, self.now_ms)
        unfinished_before = self.partition.ranges.unfinished
        for batch in self.log:
            if batch.last < offset or taking.is_full:
                continue
            taking.offer(batch.first, batch.last, holds_records=batch.holds_records)
        acquired = taking.finish()
        if strict:
            assert taking.taken <= wanted
            fresh = self.partition.ranges.unfinished - unfinished_before
            assert fresh <= max(0, self.group_rules.max_in_flight - unfinished_before)
        self._sync_finished_without_delivery()
        for first, last, deliveries in acquired:
            for at in range(first, last + 1):
                one = self.model.records[at]
                assert one.state is RecordState.AVAILABLE, f"{at} was with {one.member}"
                assert one.exists
                assert one.deliveries + 1 == deliveries <= self.group_rules.delivery_limit
                one.state, one.member = RecordState.ACQUIRED, member
                one.deliveries = deliveries
                one.deadline_ms = self.now_ms + LOCK_MS

    def _sync_finished_without_delivery(self) -> None:
        """What is no record (gaps, markers) may be skipped by the partition whenever it sees it."""
        for offset in range(self.partition.start_offset):
            one = self.model.records[offset]
            if not one.exists:
                one.state = RecordState.ARCHIVED
        for part in self.partition.ranges:
            if part.state is RecordState.ARCHIVED:
                for offset in range(part.first, part.last + 1):
                    one = self.model.records[offset]
                    if not one.exists:
                        one.state = RecordState.ARCHIVED

    @rule(
        member=st.sampled_from(MEMBERS),
        types=st.lists(st.sampled_from(list(AcknowledgeType)), min_size=1, max_size=6),
        begin=st.integers(0, 40),
        uniform=st.booleans(),
    )
    def acknowledge(
        self, member: str, types: list[AcknowledgeType], begin: int, uniform: bool
    ) -> None:
        first = self.log_start + begin
        last = first + len(types) - 1
        said = [types[0]] if uniform else types
        at_stake = [
            self.model.records.get(offset)
            for offset in range(max(first, self.partition.start_offset), last + 1)
        ]
        allowed = all(
            one is not None and one.state is RecordState.ACQUIRED and one.member == member
            for one in at_stake
        )
        before = [part.as_batch() for part in self.partition.ranges]
        try:
            changes = self.partition.acknowledge(
                member, [Acknowledgement(first, last, said)], self.group_rules, self.now_ms
            )
        except ApiError:
            assert not allowed
            assert [part.as_batch() for part in self.partition.ranges] == before
            return
        assert allowed
        for index, offset in enumerate(range(first, last + 1)):
            if offset in self.model.records:
                one = self.model.records[offset]
                if one.state is RecordState.ACQUIRED and one.member == member:
                    self._model_verdict(one, types[0] if uniform else types[index])
        self._write(changes)

    def _model_verdict(self, one: OneRecord, type_: AcknowledgeType) -> None:
        given_up = RecordState.ARCHIVING if self.group_rules.buries else RecordState.ARCHIVED
        match type_:
            case AcknowledgeType.ACCEPT:
                one.state = RecordState.ACKNOWLEDGED
                one.times_accepted += 1
                assert one.times_accepted == 1
            case AcknowledgeType.GAP:
                one.state = RecordState.ARCHIVED
            case AcknowledgeType.REJECT:
                one.state = given_up
            case AcknowledgeType.RENEW:
                one.deadline_ms = self.now_ms + LOCK_MS
            case AcknowledgeType.RELEASE:
                self._model_release(one)
        if type_ is not AcknowledgeType.RENEW:
            one.member = ""

    def _model_release(self, one: OneRecord) -> None:
        one.member = ""
        if one.deliveries < self.group_rules.delivery_limit:
            one.state = RecordState.AVAILABLE
        else:
            one.state = RecordState.ARCHIVING if self.group_rules.buries else RecordState.ARCHIVED

    @rule(member=st.sampled_from(MEMBERS))
    def member_goes(self, member: str) -> None:
        self._write(self.partition.release(member, self.group_rules))
        for one in self.model.records.values():
            if one.state is RecordState.ACQUIRED and one.member == member:
                self._model_release(one)

    @rule(ms=st.integers(1, 15))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self._write(self.partition.on_lock_timeout(self.now_ms, self.group_rules))
        for one in self.model.records.values():
            if one.state is RecordState.ACQUIRED and one.deadline_ms <= self.now_ms:
                self._model_release(one)

    @precondition(lambda self: self.dead)
    @rule()
    def bury(self) -> None:
        first, last = self.dead.pop(0)
        self._write(self.partition.on_dead_letters_written(first, last))
        for offset in range(first, last + 1):
            one = self.model.records[offset]
            if one.state is RecordState.ARCHIVING:
                one.state = RecordState.ARCHIVED

    # --- what is written down ------------------------------------------------------------------

    def _write(self, changes: StateChanges) -> None:
        self.dead += [(one.first, one.last) for one in changes.dead]
        if changes.need_writing:
            self.persisted.append((self.partition.start_offset, list(changes.batches)))

    @rule()
    def snapshot(self) -> None:
        self.persisted = [(self.partition.start_offset, self.partition.state_batches())]

    @rule()
    def crash(self) -> None:
        self.dead.clear()
        self.partition = SharePartition()
        for start, batches in self.persisted:
            self.partition.replay(start, batches)
        self.partition.on_log_changed(self.log_start, self.log_end)
        for offset, one in self.model.records.items():
            if offset < self.partition.start_offset:
                continue
            if one.state not in FINAL or not one.exists:
                one.state, one.member = RecordState.AVAILABLE, ""
                one.deliveries = self._written_deliveries(offset)

    def _written_deliveries(self, offset: int) -> int:
        for part in self.partition.ranges.over(offset, offset):
            return part.deliveries
        return 0

    # --- what always holds ---------------------------------------------------------------------

    @invariant()
    def both_agree(self) -> None:
        if not hasattr(self, "partition"):
            return
        ranges = list(self.partition.ranges)
        start, end = self.partition.start_offset, self.partition.end_offset
        covered = [offset for one in ranges for offset in range(one.first, one.last + 1)]
        assert covered == list(range(start, end))
        self._sync_finished_without_delivery()
        for part in ranges:
            for offset in range(part.first, part.last + 1):
                one = self.model.records[offset]
                assert (part.state, part.member) == (one.state, one.member), offset
                if not part.state.is_final:
                    assert part.deliveries == one.deliveries
        for offset in range(start):
            assert self.model.records[offset].state in FINAL, offset
        for offset in range(end, self.log_end):
            one = self.model.records[offset]
            assert one.state is RecordState.AVAILABLE, offset

    @invariant()
    def the_start_is_the_first_unfinished_record(self) -> None:
        if hasattr(self, "partition"):
            ranges = list(self.partition.ranges)
            assert not ranges or not ranges[0].state.is_final

    @invariant()
    def the_counts_are_right(self) -> None:
        if hasattr(self, "partition"):
            ranges = self.partition.ranges
            assert ranges.available == sum(
                one.size for one in ranges if one.state is RecordState.AVAILABLE
            )
            assert ranges.unfinished == sum(one.size for one in ranges if not one.state.is_final)


TestSharePartition = SharePartitionMachine.TestCase
TestSharePartition.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
