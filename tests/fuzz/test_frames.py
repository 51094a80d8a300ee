"""Mutated frames of every api and version: no crash, no hang, no traceback, bounded memory."""

import itertools
import time

import pytest

from tests.fuzz.clients import Attacker, HealthyClient
from tests.fuzz.conftest import HEALTHY_TOPIC, Victim
from tests.fuzz.requests import Generator

WARM_UP_FRAMES = 500
MAX_GROWTH_MIB = 64


def attack(victim: Victim, seed: int, *, frames: int, seconds: float) -> int:
    generator = Generator(seed)
    attacker = Attacker(victim.address)
    for number in range(WARM_UP_FRAMES):
        attacker.send(generator.frame(number))
    before = victim.memory_mib()
    deadline = time.monotonic() + seconds
    sent = 0
    with HealthyClient(victim.address, HEALTHY_TOPIC) as healthy:
        for number in itertools.count():
            if sent >= frames or time.monotonic() > deadline:
                break
            attacker.send(generator.frame(number))
            sent += 1
            if number % 500 == 0:
                victim.check_alive()
    attacker.close()
    growth = victim.memory_mib() - before
    print(
        f"{sent} frames, {attacker.answered} answered, {attacker.refused} refused, "
        f"{growth:.1f} MiB more, {healthy.produced} healthy requests, "
        f"the slowest took {healthy.slowest_seconds:.2f} s"
    )
    assert growth < MAX_GROWTH_MIB
    assert attacker.answered > sent // 50, "hardly any frame got through to a handler"
    return sent


@pytest.mark.slow
def test_mutated_frames_do_no_harm(victim, seed):
    sent = attack(victim, seed, frames=10_000, seconds=40)
    assert sent > 1_000


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_a_hundred_thousand_mutated_frames_each_do_no_harm(victim, seed, part):
    attack(victim, seed, frames=100_000, seconds=3600)


def test_every_api_and_version_has_its_turn():
    generator = Generator(1)
    seen = {generator.frame(number)[4:8] for number in range(20 * len(generator.cases))}
    assert len(seen) >= len(generator.cases)
    assert len(generator.cases) > 100
