"""What the coordinator of transactions decides, beyond what the conformance suite asks."""

import pytest

from strom.coordination.transactions.records import LAST_EPOCH
from strom.coordination.transactions.states import TransactionState
from strom.model.errors import ErrorCode
from tests.coordination.transactions.world import NAME, OTHER, PARTITION, TIMEOUT_MS, World

S = TransactionState


@pytest.fixture
def world():
    one = World()
    one.init()
    return one


def with_epoch(epoch):
    """A world whose producer has come to this epoch."""
    world = World()
    world.init()
    while world.known.epoch < epoch:
        world.end(commit=False)
        world.log.clear()
    return world


# --- the way of a transaction ----------------------------------------------------------------


def test_the_decision_is_written_before_the_markers_and_they_before_the_completion(world):
    world.add(PARTITION, OTHER)
    ticket = world.do(world.end_command(commit=True))
    decided = world.known.state
    assert decided is S.PREPARE_COMMIT
    assert ticket not in world.responses
    (markers,) = world.write_markers()
    assert (markers.commit, markers.partitions) == (True, {PARTITION, OTHER})
    assert world.known.state is S.COMPLETE_COMMIT
    assert world.responses[ticket].code is ErrorCode.NONE


@pytest.mark.parametrize("bumps_epoch", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_the_marker_has_the_epoch_that_the_client_goes_on_with(world, bumps_epoch, commit):
    world.add()
    before = world.known.epoch
    world.do(world.end_command(commit=commit, bumps_epoch=bumps_epoch))
    (markers,) = world.write_markers()
    assert markers.epoch == before + bumps_epoch == world.known.epoch
    assert markers.commit is commit


def test_a_restart_between_the_decision_and_the_markers_has_them_written(world):
    world.add(PARTITION)
    world.do(world.end_command(commit=True))
    lost = world.markers
    world.restart()
    assert world.markers == lost
    world.write_markers()
    assert world.known.state is S.COMPLETE_COMMIT
    world.restart()
    assert world.markers == []


def test_markers_that_are_written_twice_complete_it_once(world):
    world.add()
    world.end(commit=True)
    again = world.coordinator.on_markers_written(NAME, world.now_ms)
    assert (again.records, again.responses) == ([], [])


def test_while_it_ends_everything_else_has_to_wait(world):
    world.add()
    producer = {"producer_id": world.known.producer_id, "epoch": world.known.epoch}
    world.do(world.end_command(commit=True, bumps_epoch=False))
    busy = ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.responses[world.do(world.end_command(commit=True, bumps_epoch=False))].code is busy
    other = world.do(world.end_command(commit=False, bumps_epoch=False))
    assert world.responses[other].code is ErrorCode.INVALID_TXN_STATE
    check = world.coordinator.check_part_of(NAME, *producer.values(), PARTITION)
    assert check is busy
    for command in (lambda: world.init(), lambda: world.add(OTHER)):
        markers, world.markers = world.markers, []
        assert command().code is busy
        world.markers = markers


def test_what_could_not_be_written_is_reported_to_waiting_callers(world):
    world.add()
    ticket = 77
    world.coordinator.handle(world.end_command(commit=True), ticket, world.now_ms)
    assert world.coordinator.abandon(NAME) == [ticket]
    assert world.known.state is S.ONGOING
    assert world.end(commit=True).code is ErrorCode.NONE


# --- time ------------------------------------------------------------------------------------


def test_what_is_open_for_too_long_is_aborted_and_its_producer_fenced(world):
    world.add()
    epoch = world.known.epoch
    world.now_ms += TIMEOUT_MS
    assert list(world.coordinator.abort_timed_out(world.now_ms)) == []
    (outcome,) = world.coordinator.abort_timed_out(world.now_ms + 1)
    world.carry_out(outcome)
    (markers,) = world.write_markers()
    assert (markers.commit, markers.epoch) == (False, epoch + 1)
    assert world.known.state is S.COMPLETE_ABORT
    late = world.end(commit=True, bumps_epoch=False, epoch=epoch)
    assert late.code is ErrorCode.PRODUCER_FENCED


def test_the_time_runs_from_the_first_partition_also_after_a_restart(world):
    world.now_ms += 10 * TIMEOUT_MS
    world.add()
    world.now_ms += TIMEOUT_MS
    world.add(OTHER)
    world.restart()
    assert len([*world.coordinator.abort_timed_out(world.now_ms + 1)]) == 1


def test_an_idle_id_is_forgotten_and_one_at_work_never():
    world = World()
    kept_ms = world.settings.transactional_id_expiration_ms
    world.init()
    world.now_ms += kept_ms - 1
    assert list(world.coordinator.expire(world.now_ms)) == []
    world.add()
    world.now_ms += 10 * kept_ms
    assert list(world.coordinator.expire(world.now_ms)) == []
    world.do(world.end_command(commit=True))
    assert list(world.coordinator.expire(world.now_ms + 10 * kept_ms)) == []
    world.write_markers()
    (outcome,) = world.coordinator.expire(world.now_ms + kept_ms)
    world.carry_out(outcome)
    assert world.coordinator.find(NAME) is None
    world.restart()
    assert world.coordinator.find(NAME) is None


# --- epochs run out --------------------------------------------------------------------------


def test_when_the_epochs_run_out_the_next_transaction_has_a_new_producer_id():
    world = with_epoch(LAST_EPOCH - 1)
    old = world.known
    world.add()
    world.do(world.end_command(commit=True))
    (markers,) = world.markers
    assert (markers.producer_id, markers.epoch) == (old.producer_id, LAST_EPOCH)
    world.restart()
    assert world.markers == [markers]
    world.write_markers()
    assert (world.known.epoch, world.known.producer_id != old.producer_id) == (0, True)
    again = world.end(commit=True, producer_id=old.producer_id, epoch=old.epoch)
    assert (again.code, again.epoch) == (ErrorCode.NONE, 0)
    assert again.producer_id == world.known.producer_id


def test_a_new_producer_gets_a_new_id_when_the_epochs_run_out():
    world = with_epoch(LAST_EPOCH - 1)
    old = world.known
    response = world.init()
    assert (response.epoch, response.producer_id != old.producer_id) == (0, True)


def test_who_goes_on_gets_a_new_id_when_the_epochs_run_out_and_may_ask_twice():
    world = with_epoch(LAST_EPOCH - 1)
    old = world.known
    first = world.init(producer_id=old.producer_id, epoch=old.epoch)
    assert first.epoch == 0
    assert world.init(producer_id=old.producer_id, epoch=old.epoch) == first


def test_no_client_ever_gets_the_last_epoch():
    world = with_epoch(LAST_EPOCH - 1)
    old = world.known
    world.add()
    (outcome,) = world.coordinator.abort_timed_out(world.now_ms + TIMEOUT_MS + 1)
    world.carry_out(outcome)
    world.write_markers()
    assert world.known.epoch == LAST_EPOCH
    assert world.add().code is ErrorCode.PRODUCER_FENCED
    assert world.end(commit=False).code is ErrorCode.PRODUCER_FENCED
    response = world.init(producer_id=old.producer_id, epoch=old.epoch)
    assert (response.code, response.epoch) == (ErrorCode.NONE, 0)


def test_an_id_that_is_needed_and_not_at_hand_is_asked_for_again():
    world = World()
    assert world.init(new_producer_id=None).code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.coordinator.find(NAME) is None


# --- whose batches are they ------------------------------------------------------------------


def test_batches_of_the_next_epoch_are_not_those_of_the_transaction_that_ends(world):
    world.add(PARTITION)
    key = (world.known.producer_id, PARTITION)
    epoch = world.known.epoch
    assert world.coordinator.open_partitions() == {key: epoch}
    world.do(world.end_command(commit=True))
    assert world.known.epoch == epoch + 1
    assert world.coordinator.open_partitions() == {key: epoch}
    world.write_markers()
    assert world.coordinator.open_partitions() == {}


def test_a_name_is_needed(world):
    for response in (
        world.init(transactional_id=""),
        world.add(transactional_id=""),
        world.end(commit=True, transactional_id=""),
    ):
        assert response.code is ErrorCode.INVALID_REQUEST
