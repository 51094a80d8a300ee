"""Small produce requests that wait for their answer: how long it takes, and how many get through."""

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.clients import run
from benchmarks.peers import VARIANTS, Peer, Variant, running_both
from benchmarks.raw_client import ProduceRequests
from benchmarks.results import Measurement
from benchmarks.session import Session, in_turn

AREA = "latency"


class Case(NamedTuple):
    """One kind of load."""

    connections: int
    records_per_request: int
    partitions: int

    def __str__(self) -> str:
        connections = "1 connection" if self.connections == 1 else f"{self.connections} connections"
        what = "single records"
        if self.records_per_request > 1:
            what = f"batches of {self.records_per_request} records"
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{connections}, {what} of 100 B, {partitions}"


CASES = [
    Case(connections=1, records_per_request=1, partitions=1),
    Case(connections=64, records_per_request=1, partitions=1),
    Case(connections=64, records_per_request=1, partitions=12),
    Case(connections=64, records_per_request=140, partitions=1),
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
                    session.step(f"latency: {case}, {variant.title}")
                    found = _measure_one(session, case, variant, peers[variant.broker])
                    if round_number >= 0:
                        for metric, value in found:
                            yield Measurement(
                                AREA, str(case), metric, variant.key, round_number, value
                            )


def _measure_one(
    session: Session, case: Case, variant: Variant, peer: Peer
) -> list[tuple[str, float]]:
    name = f"latency-{variant.key}"
    with peer.topic(name, case.partitions, variant.topic_settings) as topic:
        before = peer.cpu_seconds()
        latency = run(
            ProduceRequests(
                peer.bootstrap_servers,
                topic,
                session.scale.latency_seconds,
                connections=case.connections,
                partitions=case.partitions,
                records_per_request=case.records_per_request,
            )
        )
        cpu = peer.cpu_seconds() - before
    return [
        ("p50", latency.p50_ms),
        ("p99", latency.p99_ms),
        ("requests", latency.requests_per_second),
        ("request_cpu", cpu * 1_000_000 / latency.requests),
    ]
