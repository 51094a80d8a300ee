"""One member joins or leaves a group: how long it takes until all the others are stable again."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

from benchmarks.clients import run
from benchmarks.internal_topics import OFFSETS, create_coordinator, keep_promise
from benchmarks.members import Rebalances, RebalanceTimes
from benchmarks.peers import VARIANTS, Peer, Variant, running_both
from benchmarks.results import Measurement
from benchmarks.session import Session, in_turn

AREA = "rebalances"


class Case(NamedTuple):
    """One kind of group."""

    members: int
    new_protocol: bool

    def __str__(self) -> str:
        members = "1 member" if self.members == 1 else f"{self.members} members"
        return f"{members}, {'consumer' if self.new_protocol else 'classic'} protocol"


CASES = [Case(members, new) for new in (False, True) for members in (1, 10, 100)]


def steps(session: Session) -> int:
    """How many steps the progress bar has."""
    return len(VARIANTS) * (session.scale.rounds + 1) * len(CASES)


def measure(session: Session) -> Iterator[Measurement]:
    """Every case in every variant, in turns. A round before the first one warms up and is dropped."""
    with running_both() as peers:
        for peer in peers.values():
            create_coordinator(peer, OFFSETS)
        for case in CASES:
            with ExitStack() as stack:
                topics = {
                    broker: stack.enter_context(peer.topic("rebalances", case.members, {}))
                    for broker, peer in peers.items()
                }
                for round_number in range(-1, session.scale.rounds):
                    for variant in in_turn(VARIANTS, round_number):
                        session.step(f"rebalances: {case}, {variant.title}")
                        peer = peers[variant.broker]
                        keep_promise(peer, OFFSETS, variant)
                        times = _rebalance(session, case, peer, topics[variant.broker])
                        if round_number >= 0:
                            yield from _measurements(case, variant, round_number, times)


def _rebalance(session: Session, case: Case, peer: Peer, topic: str) -> RebalanceTimes:
    if case.new_protocol:
        # By default both let a second pass between two assignments, and nothing else would show.
        peer.set_group(topic, {"consumer.assignment.interval.ms": "0"})
    return run(
        Rebalances(
            peer.bootstrap_servers,
            group=topic,
            topic=topic,
            topic_id=peer.topic_id(topic),
            members=case.members,
            repetitions=session.scale.rebalances,
            new_protocol=case.new_protocol,
        )
    )


def _measurements(
    case: Case, variant: Variant, round_number: int, times: RebalanceTimes
) -> Iterator[Measurement]:
    yield Measurement(AREA, str(case), "join", variant.key, round_number, times.join_ms)
    if times.leave_ms is not None:
        yield Measurement(AREA, str(case), "leave", variant.key, round_number, times.leave_ms)
