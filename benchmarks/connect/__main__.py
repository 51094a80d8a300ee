"""Run strom's Connect and Kafka's side by side, and say how they compare.

python -m benchmarks.connect             the whole comparison
python -m benchmarks.connect --quick     fewer records, one round
python -m benchmarks.connect --write     also writes docs/benchmarks-connect.md
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine
from benchmarks.connect.copies import (
    Place,
    file_to_topic,
    file_to_topic_to_file,
    file_to_topic_to_parquet,
    topic_to_file,
    topic_to_postgres,
)
from benchmarks.connect.workers import kafka_worker, strom_worker
from benchmarks.peers import running_both
from tools import kafka, postgres

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks-connect.md"
RECORDS, QUICK_RECORDS = 1_000_000, 100_000
ROUNDS = 3
OURS, OURS_ON_KAFKA, KAFKAS = "strom on strom", "strom on Kafka", "Kafka on Kafka"
HEAD = """# strom's Connect beside Kafka's

Written by `python -m benchmarks.connect --write` on {day}: records a second, medians of {rounds} rounds
of {records:,} records of 100 bytes, one partition, one task, String converters. All workers and brokers
run side by side, each in a process of its own, and copy in turns. Of a copy through a topic, time runs
from the first record in the topic until all are at the other side; of the others from the first record
seen there. Starting a connector is not counted. Both runtimes flush every second. Where Kafka has no
such connector, its figure is that of its file connectors for the same way through the topic.

What is promised differs. strom: files are read exactly once, by transactions; PostgreSQL and Parquet are
written exactly once, each position with its data; the broker syncs every acknowledged record to the
disk, and a file sink its file before it says how far it is. Kafka's runtime with its file connectors: at
least once, and nothing is synced.

| copy | {ours} | {ours_on_kafka} | {kafkas} | ratio | ratio on Kafka |
| :-- | --: | --: | --: | --: | --: |
"""


class Case(NamedTuple):
    """A copy, and the one of Kafka's that it is compared with."""

    title: str
    ours: Callable[[Place, int], float]
    kafkas: Callable[[Place, int], float]


class Row(NamedTuple):
    """One line of the table."""

    title: str
    rates: Mapping[str, float]

    def markdown(self) -> str:
        """As a line of the page."""
        figures = " | ".join(f"{self.rates[name]:,.0f}" for name in (OURS, OURS_ON_KAFKA, KAFKAS))
        ratios = " | ".join(
            f"{self.rates[name] / self.rates[KAFKAS]:.2f}" for name in (OURS, OURS_ON_KAFKA)
        )
        return f"| {self.title} | {figures} | {ratios} |"


@contextmanager
def _places() -> Iterator[dict[str, Place]]:
    with ExitStack() as stack:
        peers = stack.enter_context(running_both())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-connect-")))
        strom, real = peers["strom"], peers["kafka"]
        start = stack.enter_context
        yield {
            OURS: Place(start(strom_worker(strom.bootstrap_servers)), strom, folder),
            OURS_ON_KAFKA: Place(start(strom_worker(real.bootstrap_servers)), real, folder),
            KAFKAS: Place(start(kafka_worker(real.bootstrap_servers)), real, folder),
        }


def _cases(stack: ExitStack) -> list[Case]:
    cases = [
        Case("file → topic", file_to_topic, file_to_topic),
        Case("topic → file", topic_to_file, topic_to_file),
        Case("file → topic → file", file_to_topic_to_file, file_to_topic_to_file),
        Case("file → topic → Parquet", file_to_topic_to_parquet, file_to_topic_to_file),
    ]
    try:
        postgres.locate()
    except postgres.UnavailableError as reason:
        print(f"Without PostgreSQL: {reason}")
        return cases
    server = stack.enter_context(postgres.RealPostgres())
    copy = topic_to_postgres(server.url, server.user)
    return [*cases, Case("topic → PostgreSQL", copy, topic_to_file)]


def _measured(cases: list[Case], records: int, rounds: int) -> Iterator[Row]:
    with _places() as places:
        for case in cases:
            taken: dict[str, list[float]] = {name: [] for name in places}
            for _ in range(rounds):
                for name, place in places.items():
                    copy = case.kafkas if name == KAFKAS else case.ours
                    taken[name].append(copy(place, records))
            yield Row(case.title, {name: statistics.median(rates) for name, rates in taken.items()})


def main() -> int:
    """Run all of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connect", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--write", action="store_true")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="only copies with this in the name"
    )
    options = parser.parse_args()
    records = QUICK_RECORDS if options.quick else RECORDS
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    try:
        kafka.locate()
    except kafka.UnavailableError as reason:
        print(f"No comparison: {reason}")
        return 0
    with ExitStack() as stack:
        rows = []
        for row in _measured(
            [case for case in _cases(stack) if options.only in case.title], records, rounds
        ):
            rows.append(row)
            print(row.markdown(), flush=True)
    if options.write:
        _write(rows, records, rounds)
    return 0


def _write(rows: list[Row], records: int, rounds: int) -> None:
    day = datetime.now(UTC).date().isoformat()
    names = {"ours": OURS, "ours_on_kafka": OURS_ON_KAFKA, "kafkas": KAFKAS}
    head = HEAD.format(day=day, rounds=rounds, records=records, **names)
    about = "\n".join(f"- {name}: {text}" for name, text in machine.describe().items())
    PAGE.write_text(head + "\n".join(row.markdown() for row in rows) + f"\n\n{about}\n")


if __name__ == "__main__":
    sys.exit(main())
