"""Records in transactions through librdkafka: records per second, and what they cost the broker."""

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.clients import ProduceInTransactions, run
from benchmarks.internal_topics import TRANSACTION_STATE, create_coordinator, keep_promise
from benchmarks.peers import VARIANTS, Peer, Variant, running_both
from benchmarks.results import Measurement
from benchmarks.session import Session, in_turn

AREA = "transactions"
RECORDS = 1_000
"""In each transaction."""


class Case(NamedTuple):
    """One kind of load."""

    partitions: int

    def __str__(self) -> str:
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{RECORDS:,} records of 100 B in each, {partitions}"


CASES = [Case(partitions=1), Case(partitions=12)]


def steps(session: Session) -> int:
    """How many steps the progress bar has."""
    return len(VARIANTS) * (session.scale.rounds + 1) * len(CASES)


def measure(session: Session) -> Iterator[Measurement]:
    """Every case in every variant, in turns. A round before the first one warms up and is dropped."""
    with running_both() as peers:
        for peer in peers.values():
            create_coordinator(peer, TRANSACTION_STATE)
        for case in CASES:
            for round_number in range(-1, session.scale.rounds):
                for variant in in_turn(VARIANTS, round_number):
                    session.step(f"transactions: {case}, {variant.title}")
                    found = _measure_one(session, case, variant, peers[variant.broker])
                    if round_number >= 0:
                        for metric, value in found:
                            yield Measurement(
                                AREA, str(case), metric, variant.key, round_number, value
                            )


def _measure_one(
    session: Session, case: Case, variant: Variant, peer: Peer
) -> list[tuple[str, float]]:
    keep_promise(peer, TRANSACTION_STATE, variant)
    name = f"transactions-{variant.key}"
    with peer.topic(name, case.partitions, variant.topic_settings) as topic:
        job = ProduceInTransactions(
            peer.bootstrap_servers,
            topic,
            transactional_id=topic,
            transactions=session.scale.transactions,
            records=RECORDS,
            partitions=case.partitions,
        )
        before = peer.cpu_seconds()
        rate = run(job)
        cpu = peer.cpu_seconds() - before
    records = session.scale.transactions * RECORDS
    return [("produce", rate), ("produce_cpu", cpu * 1_000_000 / records)]
