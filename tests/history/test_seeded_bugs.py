"""A judge that sees nothing proves nothing: bugs planted in the broker must be found in its history.

The same clients under the same misfortunes find nothing wrong with a broker without the bug.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from strom.testing import BrokerProcess
from strom.testing.history import Anomaly, check_history
from tests.history.buggy_broker import PLANTS
from tests.history.faults import Faults
from tests.history.harsh_world import MISFORTUNES
from tests.history.planting import PLANTED
from tests.history.workload import SETTINGS, Workload

ROOT = Path(__file__).resolve().parents[2]

TURNS = 8
HISTORIES = 5
"""A bug is found in one history, or it was not met and the next one is tried."""

LOST = {Anomaly.LOST_WRITE, Anomaly.UNSEEN, Anomaly.INCONSISTENT_OFFSETS}

SKIPPED = {Anomaly.POLL_SKIP, Anomaly.POLL_SKIP_WITHIN, Anomaly.LOST_WRITE}
MIXED_UP = {Anomaly.INCONSISTENT_OFFSETS, Anomaly.DUPLICATE, Anomaly.NONMONOTONIC_SEND}
TAKEN_BACK = {Anomaly.NONMONOTONIC_POLL}
"""A consumer has read records that are gone after a crash, and reads what took their offsets."""


class Planted(NamedTuple):
    """What is planted, who works with it, and what must be found."""

    misfortune: str
    clients: Callable[[Workload], None]
    telling: set[Anomaly]


def plain(workload: Workload) -> None:
    """Producers, and consumers without a group."""
    workload.add_plain_clients()


def grouped(workload: Workload) -> None:
    """A producer and the members of a group."""
    workload.add_plain_clients(senders=1, readers=0)
    workload.add_members()


def transactional(workload: Workload) -> None:
    """Transactional producers, and consumers that see what they commit."""
    workload.add_plain_clients(senders=1)
    workload.add_transactors()


BUGS = {
    "answer_before_writing": Planted("", plain, LOST),
    "answer_before_syncing": Planted("lose_unsynced", plain, LOST),
    "show_before_syncing": Planted("lose_unsynced", plain, MIXED_UP | TAKEN_BACK),
    "forget_sequences": Planted("lose_answers", plain, {Anomaly.DUPLICATE}),
    "append_twice": Planted("", plain, {Anomaly.DUPLICATE}),
    "tell_wrong_offsets": Planted("", plain, {Anomaly.DUPLICATE}),
    "skip_batches": Planted("", plain, SKIPPED),
    "cut_last_batches": Planted("", plain, LOST),
    "forget_offsets_at_restart": Planted("", grouped, {Anomaly.OFFSET_WENT_BACK}),
    "keep_first_offset": Planted("", grouped, {Anomaly.OFFSET_WENT_BACK}),
    "give_partitions_twice": Planted("", grouped, {Anomaly.TWO_OWNERS}),
    "show_open_transactions": Planted("", transactional, {Anomaly.ABORTED_READ}),
    "hide_that_it_was_aborted": Planted("", transactional, {Anomaly.ABORTED_READ}),
    "abort_instead_of_committing": Planted("", transactional, LOST),
    "commit_instead_of_aborting": Planted("", transactional, {Anomaly.ABORTED_READ}),
    "tell_one_partition": Planted("", transactional, LOST),
    "fence_nobody": Planted("", transactional, LOST),
    "keep_aborted_offsets": Planted("", transactional, {Anomaly.ABORTED_OFFSET}),
}


def run(chance: Random, clients: Callable[[Workload], None], *planted: str) -> Workload:
    """A little work, a kill, a little more work, and a last look."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PLANTED, ",".join(filter(None, planted)))
        patch.chdir(ROOT)
        with BrokerProcess(settings=SETTINGS, module="tests.history.buggy_broker") as server:
            workload = Workload(server.bootstrap_servers, chance)
            workload.create_topic()
            clients(workload)
            try:
                with workload.at_work():
                    workload.wait_for_turns(TURNS)
                    Faults(server, chance).kill()
                    workload.wait_for_turns(TURNS)
            except AssertionError:
                # A broker with bugs may never respond to its clients: the history shows why.
                if not any(bug in BUGS for bug in planted):
                    raise
            workload.finish()
            return workload


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(chance, bug):
    misfortune, clients, telling = BUGS[bug]
    found: set[Anomaly] = set()
    for number in range(1, HISTORIES + 1):
        verdict = check_history(run(chance, clients, misfortune, bug).recorder.history())
        found |= verdict.anomalies
        if found & telling:
            print(f"{bug} was found in history {number}")
            return
    pytest.fail(f"{bug} was not found, only {found}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("misfortune", "clients"),
    sorted({(bug.misfortune, bug.clients) for bug in BUGS.values()}, key=str),
)
def test_without_a_bug_nothing_is_found(chance, misfortune, clients):
    check_history(run(chance, clients, misfortune).recorder.history()).raise_if_wrong()


def test_every_bug_is_tried():
    assert set(BUGS) == set(PLANTS) - set(MISFORTUNES)
