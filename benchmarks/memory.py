"""How much memory a broker occupies: just started, and at most while it takes and gives records."""

from collections.abc import Iterator

from benchmarks.clients import Consume, Produce, run
from benchmarks.comparison import MEMORY_IDLE
from benchmarks.peers import KAFKA, STROM_DISK, ResidentPeak, Variant, running
from benchmarks.results import Measurement
from benchmarks.session import Session, in_turn

AREA = "memory"
LOADED = "producing and consuming 1 KB, 12 partitions"
_RECORD_BYTES = 1024
_PARTITIONS = 12
_REPETITIONS = 3
"""A virtual machine takes its heap only as it needs it."""


def steps(session: Session) -> int:
    """How many steps the progress bar has."""
    return 2 * session.scale.rounds


def measure(session: Session) -> Iterator[Measurement]:
    """A fresh broker of each kind, in turns."""
    for round_number in range(session.scale.rounds):
        for variant in in_turn((STROM_DISK, KAFKA), round_number):
            session.step(f"memory: {variant.title}")
            for case, megabytes in _megabytes(session, variant):
                yield Measurement(AREA, case, "resident", variant.key, round_number, megabytes)


def _megabytes(session: Session, variant: Variant) -> Iterator[tuple[str, float]]:
    records = session.scale.records(_RECORD_BYTES)
    with running(variant.broker) as peer:
        yield MEMORY_IDLE, peer.resident_bytes() / 1e6
        servers = peer.bootstrap_servers
        with peer.topic("memory", _PARTITIONS, variant.topic_settings) as topic:
            with ResidentPeak(peer) as peak:
                for _ in range(_REPETITIONS):
                    run(Produce(servers, topic, records, _RECORD_BYTES, _PARTITIONS))
                    run(Consume(servers, topic, records, _PARTITIONS))
            yield LOADED, peak.bytes / 1e6
