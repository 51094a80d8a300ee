"""Members come and go, stand still and die: one owner in each generation, and no offset goes back."""

import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from strom.testing import BrokerProcess
from strom.testing.history import Owns, check_history
from tests.history.client_processes import ClientProcess, read_histories
from tests.history.group_members import GROUP, Asker, commit_beginnings, committed_offsets
from tests.history.group_process import SHORT_SESSION_MS
from tests.history.plain_clients import Sender
from tests.history.workload import SETTINGS, Workload

PARTITIONS = 6
MOST_MEMBERS = 6
END_SECONDS = 90
BROKER = {
    **SETTINGS,
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": str(SHORT_SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}
PROTOCOLS = ["range", "cooperative", "consumer"]


class Churn:
    """The members of a group, and what happens to them."""

    def __init__(self, address: str, protocol: str, chance: Random, folder: Path) -> None:
        self.happened: Counter[str] = Counter()
        self._address = address
        self._protocol = protocol
        self._chance = chance
        self._folder = folder
        self._running: list[ClientProcess] = []
        self._still: list[ClientProcess] = []
        self._leaving: list[ClientProcess] = []
        self._count = 0

    def step(self) -> None:
        """Do something to the group, by chance."""
        acts = [self.join] * 2 if len(self._running) < MOST_MEMBERS else []
        if len(self._running) > 1:
            acts += [self._leave, self._kill, self._stand_still]
        if self._still:
            acts += [self._go_on] * 2
        act = self._chance.choice(acts)
        act()
        self.happened[act.__name__.lstrip("_").replace("_", " ")] += 1
        for member in (*self._running, *self._still):
            assert member.is_running, f"{member.name} has failed:\n{member.words}"

    def join(self) -> None:
        """One more member."""
        self._count += 1
        name = f"member{self._count}"
        self._running.append(
            ClientProcess(
                "tests.history.group_process", name, self._folder, self._address, self._protocol
            )
        )

    def _leave(self) -> None:
        member = self._take(self._running)
        member.ask_to_stop()
        self._leaving.append(member)

    def _kill(self) -> None:
        self._take(self._running).kill()

    def _stand_still(self) -> None:
        member = self._take(self._running)
        member.stand_still()
        self._still.append(member)

    def _go_on(self) -> None:
        member = self._take(self._still)
        member.go_on()
        self._running.append(member)

    def _take(self, members: list[ClientProcess]) -> ClientProcess:
        return members.pop(self._chance.randrange(len(members)))

    def calm_down(self) -> None:
        """All stopped members continue, and no member joins or leaves any more."""
        while self._still:
            self._go_on()

    def stop(self) -> None:
        """All members leave."""
        for member in self._running:
            member.ask_to_stop()
        for member in (*self._running, *self._leaving):
            member.wait()

    def kill_all(self) -> None:
        """Leave nothing behind."""
        for member in (*self._running, *self._leaving, *self._still):
            member.kill()


def wait_until_all_is_read(address: str, ends: dict[int, int]) -> None:
    """Return when the group has committed the end of every partition."""
    deadline = time.monotonic() + END_SECONDS
    while (offsets := committed_offsets(address, GROUP, PARTITIONS)) != ends:
        assert time.monotonic() < deadline, f"the group stays at {offsets}, the ends are {ends}"
        time.sleep(0.2)


def run(chance: Random, folder: Path, protocol: str, steps: int) -> None:
    with BrokerProcess(settings=BROKER) as server:
        address = server.bootstrap_servers
        workload = Workload(address, chance, partitions=PARTITIONS)
        workload.create_topic()
        commit_beginnings(workload.recorder, address, PARTITIONS)
        place = (workload.recorder, chance, address, PARTITIONS)
        sender = Sender("sender", *place)
        sender.pause_seconds = 0.02
        workload.workers += [sender, Asker("asker", *place)]
        churn = Churn(address, protocol, chance, folder)
        try:
            for _ in range(2):
                churn.join()
            with workload.at_work():
                for _ in range(steps):
                    churn.step()
                    time.sleep(chance.uniform(0.05, 0.6))
                churn.calm_down()
            calm_since = time.monotonic()
            wait_until_all_is_read(address, workload.ends())
            calm_seconds = time.monotonic() - calm_since
            churn.stop()
        finally:
            churn.kill_all()
        assert "Traceback" not in server.words(), server.words()
    # No judge reads here: what the members have not read counts as lost.
    history = [*workload.recorder.history(), *read_histories(folder)]
    verdict = check_history(history)
    generations = {
        step.generation for one in history for step in one.steps if isinstance(step, Owns)
    }
    print(f"{protocol}: {dict(churn.happened)}, {len(generations)} generations with owners, ")
    print(
        f"{verdict.operations} operations; all was read {calm_seconds:.1f} s after the last change"
    )
    verdict.raise_if_wrong()
    assert len(generations) > steps / 10, "the group has hardly ever rebalanced"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_in_turmoil_keeps_its_order(chance, tmp_path, protocol):
    run(chance, tmp_path, protocol, steps=25)


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_in_long_turmoil_keeps_its_order(chance, tmp_path, protocol):
    run(chance, tmp_path, protocol, steps=200)
