"""Who runs what: connectors and tasks shared out among workers.

A piece of work moves in two rounds. In the first its owner is no longer given it; only when the
owner has stopped it and says so, by not claiming it any more, another gets it in the second. So
whatever a worker still claims is given to nobody else.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

CONNECTOR = -1


class Unit(NamedTuple):
    """A piece of work with one owner: a task by its number, or the connector itself."""

    connector: str
    task: int = CONNECTOR

    def __str__(self) -> str:
        return self.connector if self.task == CONNECTOR else f"{self.connector}-{self.task}"


Shares = dict[str, frozenset[Unit]]


def share_out(units: Iterable[Unit], claims: Mapping[str, Iterable[Unit]]) -> Shares:
    """What each worker shall run now, given what each still runs (its claims).

    Even (connectors and tasks each, to within one), and moving as little as that allows.
    """
    existing = set(units)
    shares: dict[str, set[Unit]] = {worker: set() for worker in claims}
    if not shares:
        return {}
    claimed = {worker: set(claim) for worker, claim in claims.items()}
    taken = set().union(*claimed.values())
    for is_task in (False, True):
        kind = {unit for unit in existing if (unit.task != CONNECTOR) is is_task}
        kept = _kept(kind, claimed)
        room = _rooms(len(kind), kept, shares)
        for worker, own in kept.items():
            shares[worker].update(sorted(own)[: room[worker]])
            room[worker] -= min(room[worker], len(own))
        for unit in sorted(kind - taken):
            worker = max(room, key=lambda name: (room[name], name))
            shares[worker].add(unit)
            room[worker] -= 1
    return {worker: frozenset(share) for worker, share in shares.items()}


def _kept(kind: set[Unit], claimed: Mapping[str, set[Unit]]) -> dict[str, set[Unit]]:
    """What each worker may go on with. Of two that claim the same, the first by name."""
    seen: set[Unit] = set()
    kept: dict[str, set[Unit]] = {}
    for worker in sorted(claimed):
        kept[worker] = (claimed[worker] & kind) - seen
        seen |= kept[worker]
    return kept


def _rooms(
    number: int, kept: Mapping[str, set[Unit]], shares: Mapping[str, set[Unit]]
) -> dict[str, int]:
    """How many each may have; the odd ones go to who has most already, then to who has least else."""
    base, odd = divmod(number, len(kept))
    order = sorted(kept, key=lambda worker: (-len(kept[worker]), len(shares[worker]), worker))
    return {worker: base + (place < odd) for place, worker in enumerate(order)}
