"""From the start of the process to the broker's own word that it is ready, with an empty folder.

Kafka's formatting of the folder, which strom does not need, is not counted.
"""

import time
from collections.abc import Iterator

from benchmarks.peers import KAFKA, STROM_DISK, start
from benchmarks.results import Measurement
from benchmarks.session import Session, in_turn
from tools.kafka import RealKafka

AREA = "startup"
CASE = "empty data folder"


def steps(session: Session) -> int:
    """How many steps the progress bar has."""
    return 2 * session.scale.rounds


def measure(session: Session) -> Iterator[Measurement]:
    """Start both in turns."""
    for round_number in range(session.scale.rounds):
        for variant in in_turn((STROM_DISK, KAFKA), round_number):
            session.step(f"start-up: {variant.title}")
            seconds = _seconds(variant.broker)
            yield Measurement(AREA, CASE, "startup", variant.key, round_number, seconds)


def _seconds(broker: str) -> float:
    began = time.monotonic()
    process = start(broker)
    seconds = time.monotonic() - began
    process.stop()
    return process.startup_seconds if isinstance(process, RealKafka) else seconds
