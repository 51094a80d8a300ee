"""Assigns connectors and tasks to workers, cooperatively (KIP-415).

A unit moves in two rebalances: the first revokes it from its owner; when the owner has stopped it and
no longer claims it, the second assigns it to another worker. So a unit that a worker still claims is
never assigned to another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

CONNECTOR = -1


class Unit(NamedTuple):
    """What is assigned to one worker: a task by its number, or the connector itself."""

    connector: str
    task: int = CONNECTOR

    def __str__(self) -> str:
        return self.connector if self.task == CONNECTOR else f"{self.connector}-{self.task}"


@dataclass(frozen=True)
class WorkerAssignment:
    """What the leader assigned to a worker."""

    units: frozenset[Unit] = frozenset()
    config_end: int = 0
    """How far the leader had read the config topic when it assigned."""
    generation: int = -1
    leader: str = ""


Assignments = dict[str, frozenset[Unit]]


def assign_units(units: Iterable[Unit], claims: Mapping[str, Iterable[Unit]]) -> Assignments:
    """Assign units to workers, given what each of them still runs (its claims).

    Balanced (connectors and tasks each, to within one), with as few moves as possible.
    """
    existing = set(units)
    assigned: dict[str, set[Unit]] = {worker: set() for worker in claims}
    if not assigned:
        return {}
    claimed = {worker: set(claim) for worker, claim in claims.items()}
    taken = set().union(*claimed.values())
    for is_task in (False, True):
        kind = {unit for unit in existing if (unit.task != CONNECTOR) is is_task}
        kept = _kept(kind, claimed)
        room = _capacities(len(kind), kept, assigned)
        for worker, own in kept.items():
            assigned[worker].update(sorted(own)[: room[worker]])
            room[worker] -= min(room[worker], len(own))
        for unit in sorted(kind - taken):
            worker = max(room, key=lambda name: (room[name], name))
            assigned[worker].add(unit)
            room[worker] -= 1
    return {worker: frozenset(own) for worker, own in assigned.items()}


def _kept(kind: set[Unit], claimed: Mapping[str, set[Unit]]) -> dict[str, set[Unit]]:
    """What each worker keeps. Of two that claim the same unit, the first by name keeps it."""
    seen: set[Unit] = set()
    kept: dict[str, set[Unit]] = {}
    for worker in sorted(claimed):
        kept[worker] = (claimed[worker] & kind) - seen
        seen |= kept[worker]
    return kept


def _capacities(
    number: int, kept: Mapping[str, set[Unit]], assigned: Mapping[str, set[Unit]]
) -> dict[str, int]:
    """How many each may have; the remainder goes to those that keep most, then to those with least."""
    base, odd = divmod(number, len(kept))
    order = sorted(kept, key=lambda worker: (-len(kept[worker]), len(assigned[worker]), worker))
    return {worker: base + (index < odd) for index, worker in enumerate(order)}
