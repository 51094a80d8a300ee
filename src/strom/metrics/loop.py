"""Metrics of the broker's event loop, which serves all clients."""

from typing import NamedTuple

from strom.metrics.tables import MetricTable, counter, gauge

LOOP = MetricTable(
    (),
    (
        counter(
            "strom_loop_slow_turns",
            "Turns of the event loop that took more than 50 ms: no client was served meanwhile. A paused "
            "or overloaded machine counts too.",
        ),
        gauge("strom_loop_longest_turn_seconds", "The longest of them since the start."),
    ),
)
TABLES = (LOOP,)


class LoopReading(NamedTuple):
    """A row of LOOP."""

    slow_turns: int
    longest_seconds: float
