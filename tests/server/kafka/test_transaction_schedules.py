"""Transactions under any schedule: late, repeated and lost requests, zombies, timeouts, crashes.

Each seed is one schedule. What must hold in the end is the whole promise: every transaction counts wholly
or not at all, nothing counts that was not to be committed, and nothing stays open.
"""

import asyncio
import os
import random
from collections import Counter

import pytest

from strom.broker import broker as broker_module
from strom.coordination.transactions.states import TransactionState
from tests.server.kafka.transaction_clients import Client, Network, Txn
from tests.server.kafka.transaction_world import TIMEOUT_MS, ManualCommit, World

SCHEDULES = 150
LONG_SCHEDULES = 10_000
STEPS = 400
NAME = "shop"


class Schedule:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.version = self.chance.choice((1, 2, 2))
        self.world = World(self.chance)
        self.network = Network(self.world, self.chance)
        self.txns: list[Txn] = []
        self.clients: list[Client] = []
        self.crashes = self.chance.random() < 0.5

    def new_txn(self) -> Txn:
        txn = Txn(len(self.txns))
        self.txns.append(txn)
        return txn

    def new_client(self) -> None:
        self.clients.append(Client(self.network, NAME, self.version, self.new_txn))

    async def run(self) -> None:
        await self.world.start()
        await self.world.create_topics()
        self.new_client()
        for _ in range(STEPS):
            await self.step()
            await asyncio.sleep(0)
        await self.finish()
        self.check()
        await self.world.crash(lose_power=self.chance.random() < 0.5)
        await self.world.settle()
        self.check()

    async def step(self) -> None:
        luck = self.chance.random()
        if luck < 0.55:
            self.chance.choice(self.clients).act()
        elif luck < 0.90:
            self.world.sync_something()
        elif luck < 0.94:
            self.network.deliver_late()
        elif luck < 0.96:
            self.world.clock.advance(self.chance.randrange(TIMEOUT_MS))
            await self.world.transactions.abort_timed_out()
        elif luck < 0.985:
            if all(client.is_dead for client in self.clients) or luck > 0.98:
                self.new_client()
        elif self.crashes:
            await self.world.crash(lose_power=self.chance.random() < 0.5)

    async def finish(self) -> None:
        """Everything that is still on its way arrives; then all that is left open times out."""
        self.chance.shuffle(self.network.late)
        while self.network.late:
            self.network.deliver_late()
            await asyncio.sleep(0)
            self.world.sync_something()
        await self.world.settle()
        self.world.clock.advance(TIMEOUT_MS + 1)
        await self.world.transactions.abort_timed_out()
        await self.world.settle()

    # --- laws ----------------------------------------------------------------------------------

    def check(self) -> None:
        self.check_that_nothing_is_open()
        seen = Counter(self.world.committed_values())
        assert max(seen.values(), default=1) == 1, "a record is seen twice"
        by_txn: dict[int, set[str]] = {}
        for value in seen:
            by_txn.setdefault(int(value.partition(":")[0]), set()).add(value)
        for txn in self.txns:
            self.check_txn(txn, by_txn.get(txn.number, set()))

    def check_that_nothing_is_open(self) -> None:
        for log in self.world.logs():
            assert log.last_stable_offset == log.high_watermark == log.end_offset, log.partition
        for known in self.world.transactions.look().transactions():
            assert known.state.is_idle, known
            assert known.state is not TransactionState.ONGOING

    def check_txn(self, txn: Txn, seen: set[str]) -> None:
        offset = self.world.committed_offset(txn.group)
        if txn.is_committed:
            assert seen == set(txn.acked) == set(txn.sent), txn
            assert (offset == txn.number) == txn.offset_acked, txn
        elif not txn.commit_asked:
            assert not seen, f"{txn} was never to be committed, but {seen} is seen"
            assert offset is None, txn
        else:  # asked, and never told
            assert seen in (set(), set(txn.acked)), f"{txn}: half of it is seen, {seen}"
            if seen:
                assert (offset is not None) == txn.offset_acked, txn
            elif txn.acked:
                assert offset is None, txn


def run(seed: int) -> Schedule:
    schedule = Schedule(seed)
    try:
        asyncio.run(asyncio.wait_for(schedule.run(), 30))
    except BaseException:
        print(f"STROM_SEED={seed}")
        raise
    return schedule


@pytest.fixture(autouse=True)
def _disk_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "GroupCommit", ManualCommit)


def seeds(count: int) -> range:
    """The same ones each time, or the one that STROM_SEED names."""
    chosen = os.environ.get("STROM_SEED")
    return range(count) if chosen is None else range(int(chosen), int(chosen) + 1)


@pytest.mark.slow
def test_every_transaction_counts_wholly_or_not_at_all() -> None:
    schedules = [run(seed) for seed in seeds(SCHEDULES)]
    txns = [txn for schedule in schedules for txn in schedule.txns]
    if len(schedules) == SCHEDULES:
        assert sum(txn.is_committed for txn in txns) > SCHEDULES, "too little was committed"
        unknown = sum(txn.commit_asked and not txn.is_committed for txn in txns)
        assert unknown > SCHEDULES / 10, "too little was ever in doubt"


@pytest.mark.soak
def test_the_same_for_a_long_time() -> None:
    first = random.SystemRandom().randrange(2**31)
    print(f"from seed {first}")
    for seed in seeds(1) if "STROM_SEED" in os.environ else range(first, first + LONG_SCHEDULES):
        run(seed)
