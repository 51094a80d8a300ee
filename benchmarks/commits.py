"""Commits of offsets: how many get through, by one group and by ten."""

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.clients import Job, run
from benchmarks.commit_clients import AsynchronousCommits, WaitingCommits
from benchmarks.internal_topics import OFFSETS, create_coordinator, keep_promise
from benchmarks.peers import VARIANTS, Peer, Variant, running_both
from benchmarks.results import Measurement
from benchmarks.session import Session, in_turn

AREA = "commits"


class Case(NamedTuple):
    """One kind of load."""

    groups: int
    waiting: bool

    def __str__(self) -> str:
        groups = "1 group" if self.groups == 1 else f"{self.groups} groups"
        how = "each waits for its answer" if self.waiting else "asynchronous, through librdkafka"
        return f"{groups}, {how}"


CASES = [Case(groups, waiting) for waiting in (True, False) for groups in (1, 10)]


def steps(session: Session) -> int:
    """How many steps the progress bar has."""
    return len(VARIANTS) * (session.scale.rounds + 1) * len(CASES)


def measure(session: Session) -> Iterator[Measurement]:
    """Every case in every variant, in turns. A round before the first one warms up and is dropped."""
    with running_both() as peers:
        for peer in peers.values():
            create_coordinator(peer, OFFSETS)
        for case in CASES:
            for round_number in range(-1, session.scale.rounds):
                for variant in in_turn(VARIANTS, round_number):
                    session.step(f"commits: {case}, {variant.title}")
                    rate = _rate(session, case, variant, peers[variant.broker])
                    if round_number >= 0:
                        yield Measurement(
                            AREA, str(case), "commits", variant.key, round_number, rate
                        )


def _rate(session: Session, case: Case, variant: Variant, peer: Peer) -> float:
    keep_promise(peer, OFFSETS, variant)
    with peer.topic(f"commits-{variant.key}", 1, variant.topic_settings) as topic:
        servers, scale = peer.bootstrap_servers, session.scale
        job: Job[float] = AsynchronousCommits(servers, topic, scale.commits, case.groups)
        if case.waiting:
            job = WaitingCommits(servers, topic, scale.latency_seconds, case.groups)
        return run(job)
