"""Chance, with a seed that is printed, so that a failure can be repeated."""

import os
import random

import pytest


@pytest.fixture
def chance() -> random.Random:
    """Set STROM_SEED to what a failed run printed, to have the same decisions again."""
    seed = int(os.environ.get("STROM_SEED", random.SystemRandom().randrange(2**32)))
    print(f"STROM_SEED={seed}")
    return random.Random(seed)
