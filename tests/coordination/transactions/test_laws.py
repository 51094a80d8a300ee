"""What holds of the coordinator whatever it is asked, by anyone, in any order."""

import dataclasses
import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.transactions.records import LAST_EPOCH, NO_EPOCH, TransactionMetadata
from strom.coordination.transactions.states import TransactionState
from strom.model.errors import ErrorCode
from tests.coordination.transactions.world import NAME, OTHER, PARTITION, TIMEOUT_MS, World

producers = st.integers(0, 3)
"""Which of the producers that were ever told their id and epoch; the last is the newest."""
steps = st.lists(
    st.one_of(
        st.tuples(st.just("init"), st.just(0)),
        st.tuples(st.sampled_from(["go on", "add", "commit", "abort", "old end"]), producers),
        st.tuples(st.sampled_from(["time", "restart", "markers"]), st.just(0)),
    ),
    max_size=25,
)


class Play:
    """A coordinator, and everyone who was ever told to be its producer."""

    def __init__(self) -> None:
        self.world = World()
        self.told = [(0, 0)]
        self.versions: list[TransactionMetadata] = []

    def step(self, verb: str, which: int) -> None:
        producer_id, epoch = self.told[-1 - which % len(self.told)]
        who: dict[str, Any] = {"producer_id": producer_id, "epoch": epoch}
        world = self.world
        match verb:
            case "init":
                self._tell(world.init())
            case "go on":
                self._tell(world.init(**who))
            case "add":
                world.add(PARTITION if epoch % 2 else OTHER, **who)
            case "commit" | "abort":
                world.do(world.end_command(commit=verb == "commit", **who))
            case "old end":
                world.do(world.end_command(commit=True, bumps_epoch=False, **who))
            case "time":
                world.now_ms += TIMEOUT_MS + 1
                for outcome in world.coordinator.abort_timed_out(world.now_ms):
                    world.carry_out(outcome)
            case "restart":
                world.restart()
            case "markers":
                world.write_markers()
        for response in world.responses.values():
            self._tell(response)
        known = world.coordinator.find(NAME)
        if known is not None:
            self.versions.append(known)

    def _tell(self, response) -> None:
        if response.code is ErrorCode.NONE and response.producer_id >= 0:
            assert response.epoch < LAST_EPOCH
            producer = (response.producer_id, response.epoch)
            if producer not in self.told:
                self.told.append(producer)


def played(steps) -> Play:
    play = Play()
    for verb, which in steps:
        play.step(verb, which)
    return play


@given(steps)
def test_an_epoch_never_comes_back(steps):
    """Each step is also checked to be one of the legal ways (`World.carry_out`)."""
    versions = played(steps).versions
    for before, after in itertools.pairwise(versions):
        if after.producer_id == before.producer_id:
            assert after.epoch >= before.epoch
        else:
            assert after.epoch == 0


@given(steps)
def test_a_transaction_has_partitions_exactly_while_it_is_open_or_ends(steps):
    for known in played(steps).versions:
        if known.state.is_idle:
            assert not known.partitions
        elif known.state is TransactionState.ONGOING:
            assert known.partitions
            assert known.started_ms > 0


@given(steps)
def test_a_restart_changes_nothing_but_who_may_ask_twice(steps):
    world = played(steps).world
    before = world.coordinator.find(NAME)
    world.restart()
    after = world.coordinator.find(NAME)
    if before is None:
        assert after is None
    else:
        assert after == dataclasses.replace(before, last_epoch=NO_EPOCH)


@given(steps)
def test_everything_comes_to_an_end(steps):
    world = played(steps).world
    world.restart()
    world.write_markers()
    world.now_ms += TIMEOUT_MS + 1
    for outcome in world.coordinator.abort_timed_out(world.now_ms):
        world.carry_out(outcome)
    world.write_markers()
    known = world.coordinator.find(NAME)
    assert known is None or known.state.is_idle
    assert world.markers == []


@given(steps)
def test_only_the_newest_producer_gets_in(steps):
    play = played(steps)
    known = play.world.coordinator.find(NAME)
    for producer_id, epoch in play.told:
        code = play.world.coordinator.check_part_of(NAME, producer_id, epoch, PARTITION)
        if known is None or (producer_id, epoch) != (known.producer_id, known.epoch):
            assert code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
