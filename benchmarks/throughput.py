"""Many records through librdkafka: records per second, and what they cost the broker."""

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.clients import Consume, Job, Produce, run
from benchmarks.peers import KAFKA_SYNCED, VARIANTS, Peer, Variant, running_both
from benchmarks.results import Measurement
from benchmarks.session import Session, in_turn

AREA = "throughput"


class Case(NamedTuple):
    """One kind of load."""

    record_bytes: int
    compression: str
    partitions: int

    def __str__(self) -> str:
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        size = f"{self.record_bytes} B" if self.record_bytes < 1000 else "1 KB"
        return f"{size}, {self.compression}, {partitions}"


CASES = [
    Case(record_bytes, compression, partitions)
    for record_bytes in (100, 1024)
    for compression in ("none", "lz4")
    for partitions in (1, 12)
]


def steps(session: Session) -> int:
    """How many steps the progress bar has."""
    return len(VARIANTS) * (session.scale.rounds + 1) * len(CASES)


def measure(session: Session) -> Iterator[Measurement]:
    """Every case in every variant, in turns. A round before the first one warms up and is dropped."""
    with running_both() as peers:
        for case in CASES:
            for round_number in range(-1, session.scale.rounds):
                for variant in in_turn(VARIANTS, round_number):
                    session.step(f"throughput: {case}, {variant.title}")
                    found = _measure_one(session, case, variant, peers[variant.broker])
                    if round_number >= 0:
                        for metric, value in found:
                            yield Measurement(
                                AREA, str(case), metric, variant.key, round_number, value
                            )


def _measure_one(
    session: Session, case: Case, variant: Variant, peer: Peer
) -> list[tuple[str, float]]:
    records = session.scale.records(case.record_bytes)
    servers = peer.bootstrap_servers
    name = f"throughput-{variant.key}"
    with peer.topic(name, case.partitions, variant.topic_settings) as topic:
        produce = Produce(
            servers, topic, records, case.record_bytes, case.partitions, case.compression
        )
        rate, cpu = _with_cpu(peer, produce, records)
        found = [("produce", rate), ("produce_cpu", cpu)]
        if variant is not KAFKA_SYNCED:  # it reads as Kafka does with its defaults
            rate, cpu = _with_cpu(peer, Consume(servers, topic, records, case.partitions), records)
            found += [("consume", rate), ("consume_cpu", cpu)]
    return found


def _with_cpu(peer: Peer, job: Job[float], records: int) -> tuple[float, float]:
    """A job's rate, and the CPU seconds of the broker per million records."""
    before = peer.cpu_seconds()
    rate = run(job)
    return rate, (peer.cpu_seconds() - before) * 1_000_000 / records
