"""Many clients, a broker that is killed and stopped, and a judge who has seen it all."""

import pytest

from strom.testing import BrokerProcess
from strom.testing.history import check_history
from tests.history.workload import SETTINGS, Workload


def run(chance, seconds: float) -> None:
    with BrokerProcess(settings=SETTINGS) as server:
        workload = Workload(server, chance)
        workload.create_topic()
        workload.add_plain_clients()
        workload.add_members()
        workload.add_transactors()
        with workload.at_work() as faults:
            workload.wait_for_turns(5)
            faults.go_on(seconds)
            workload.wait_for_turns(5)
        verdict = check_history(workload.finish())
        print(f"{verdict.operations} operations, {len(faults.happened)} faults")
        verdict.raise_if_wrong()
        assert "Traceback" not in server.words()


@pytest.mark.slow
def test_a_short_history_is_sound(chance):
    run(chance, 5)


@pytest.mark.soak
@pytest.mark.parametrize("round_number", range(10))
def test_long_histories_are_sound(chance, round_number):
    run(chance, 120)
