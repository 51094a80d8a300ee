"""Many clients, a broker that is killed and stopped, and a judge who has seen it all."""

from random import Random

import pytest

from strom.testing import BrokerProcess
from strom.testing.history import check_history
from tests.history.faults import Faults
from tests.history.workload import SETTINGS, Workload


def all_kinds_of_clients(address: str, chance: Random) -> Workload:
    workload = Workload(address, chance)
    workload.create_topic()
    workload.add_plain_clients()
    workload.add_members()
    workload.add_transactors()
    return workload


def run(chance: Random, seconds: float) -> None:
    with BrokerProcess(settings=SETTINGS) as server:
        workload = all_kinds_of_clients(server.bootstrap_servers, chance)
        faults = Faults(server, chance)
        with workload.at_work():
            workload.wait_for_turns(5)
            faults.go_on(seconds)
            workload.wait_for_turns(5)
        verdict = check_history(workload.finish())
        print(f"{verdict.operations} operations, {len(faults.happened)} faults")
        verdict.raise_if_wrong()
        assert "Traceback" not in server.words(), server.words()


@pytest.mark.slow
def test_a_short_history_with_kills_and_stops_is_sound(chance):
    run(chance, 5)


@pytest.mark.slow
def test_a_history_without_faults_is_sound(chance, target):
    workload = all_kinds_of_clients(target.bootstrap_servers, chance)
    with workload.at_work():
        workload.wait_for_turns(15)
    check_history(workload.finish()).raise_if_wrong()


@pytest.mark.soak
@pytest.mark.parametrize("round_number", range(10))
def test_long_histories_are_sound(chance, round_number):
    run(chance, 120)
