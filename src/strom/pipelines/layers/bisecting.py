"""Finds the records that make a computation fail, by bisection; independent of Spark."""

from collections.abc import Callable

Fails = Callable[[int, int], str | None]
"""Computes the records from one index up to, not including, another; returns why that fails, or None."""


class TooManyFail(Exception):
    """More records fail than may be skipped, or finding them takes too many probes."""


class NoSingleRecord(Exception):
    """Records fail together, and none of them alone: a sum that overflows, for instance."""


def failing_records(size: int, fails: Fails, *, most: int, probes: int) -> dict[int, str]:
    """The indices that fail alone, with their reasons; all `size` records together must have failed.

    One record among n takes about log2(n) probes: if the left half succeeds, the right one need not be
    probed, because one of them must fail.
    """
    found: dict[int, str] = {}
    left = probes

    def probe(low: int, high: int) -> str | None:
        nonlocal left
        if not left:
            raise TooManyFail
        left -= 1
        return fails(low, high)

    # Ranges still to be searched, in reverse order. `implied`: the range must fail, without a probe.
    ranges: list[tuple[int, int, bool]] = [(0, size, True)]
    while ranges:
        low, high, implied = ranges.pop()
        if high - low == 1 or not implied:
            reason = probe(low, high)
            if reason is None:
                if implied:
                    raise NoSingleRecord
                continue
            if high - low == 1:
                found[low] = reason
                if len(found) > most:
                    raise TooManyFail
                continue
        middle = (low + high) // 2
        if probe(low, middle) is None:
            ranges.append((middle, high, True))
        else:
            ranges += [(middle, high, False), (low, middle, True)]
    return found
