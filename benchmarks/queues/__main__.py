"""Run strom's queues and RabbitMQ side by side, and write how they compare.

python -m benchmarks.queues                writes docs/benchmarks-queues.md
python -m benchmarks.queues --rounds 1     quicker, and nothing is written
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.queues.measures import CASES, latencies_ms, memory_waiting_mb, rate
from strom.testing import BrokerProcess
from tools.rabbitmq import RealRabbitMQ, UnavailableError, locate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks-queues.md"
ROUNDS = 3
HEAD = """# strom's queues beside RabbitMQ

Written by `python -m benchmarks.queues` on {day}: medians of {rounds} rounds. Both brokers run side by
side on the same machine and are measured in turns with the same clients
(`benchmarks/queues/raw_client.py`), each in a process of its own. Consumers have a prefetch of 500,
publishers at most 2000 unconfirmed messages. Rates are deliveries a second, from the first message
published to the last consumed.

| case | strom | RabbitMQ | ratio |
| :-- | --: | --: | --: |
"""


class Row(NamedTuple):
    """One line of the table."""

    title: str
    strom: float
    rabbitmq: float

    def markdown(self) -> str:
        """As a line of the page."""
        ratio = self.strom / self.rabbitmq
        return f"| {self.title} | {_shown(self.strom)} | {_shown(self.rabbitmq)} | {ratio:.2f} |"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def main() -> int:
    """Run all of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queues", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    try:
        locate()
    except UnavailableError as reason:
        print(f"No comparison: {reason}")
        return 0
    with BrokerProcess(queues=True) as strom, RealRabbitMQ() as rabbitmq:
        places = (strom.amqp_url, strom.pid), (rabbitmq.url, rabbitmq.pid)
        rows = _rows(places, rounds)
    if rounds >= ROUNDS:
        day = datetime.now(UTC).date().isoformat()
        lines = [row.markdown() for row in rows]
        PAGE.write_text(HEAD.format(day=day, rounds=rounds) + "\n".join(lines) + "\n")
    return 0


def _rows(places: tuple[tuple[str, int], tuple[str, int]], rounds: int) -> list[Row]:
    measured: list[Row] = []

    def add(title: str, measure: Callable[[str, int], float], times: int = rounds) -> None:
        taken = [[measure(*place) for place in places] for _ in range(times)]
        measured.append(
            Row(title, *(statistics.median(values) for values in zip(*taken, strict=True)))
        )
        print(measured[-1].markdown(), flush=True)

    for case in CASES:
        add(f"{case.title}, 1/s", lambda url, _, case=case: rate(url, case))  # type: ignore[misc]
    for persistent in (False, True):
        kind = "persistent" if persistent else "transient"
        for place, name in enumerate(("p50", "p99")):
            add(
                f"{kind} message to its consumer, {name}, ms",
                lambda url, _, p=persistent, at=place: latencies_ms(url, persistent=p)[at],  # type: ignore[misc]
            )
    add("a million messages of 100 bytes waiting, MB", memory_waiting_mb, 1)
    return measured


if __name__ == "__main__":
    sys.exit(main())
