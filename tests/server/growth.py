"""Whether a figure that is sampled over time grows."""

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

MOST_SAMPLES = 300
"""Of more, every nth is taken: the work grows with the square of their number."""


class Sample(NamedTuple):
    at_s: float
    value: float


def growth(samples: Sequence[Sample]) -> float:
    """By how much the value grew over the last two thirds of the time; the first is warm-up.

    The slope is the median of those of all pairs (the estimator of Theil and Sen), so that a few samples
    taken at a bad moment do not change it.
    """
    start, end = samples[0].at_s, samples[-1].at_s
    warm = [one for one in samples if one.at_s >= start + (end - start) / 3]
    chosen = warm[:: len(warm) // MOST_SAMPLES + 1]
    slopes = [
        (other.value - one.value) / (other.at_s - one.at_s)
        for one, other in combinations(chosen, 2)
        if other.at_s > one.at_s
    ]
    return median(slopes) * (warm[-1].at_s - warm[0].at_s)
