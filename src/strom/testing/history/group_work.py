"""Whether groups keep their committed offsets, and each partition has one owner."""

from collections import defaultdict
from typing import NamedTuple

from strom.testing.history.facts import Facts
from strom.testing.history.findings import Anomaly, Verdict
from strom.testing.history.operations import Commit, Key, OffsetFetch, Operation, Outcome, Owns

_NOTHING = -1


class _At(NamedTuple):
    """A group and one of its keys."""

    group: str
    key: Key


def check_groups(facts: Facts, verdict: Verdict) -> None:
    """Find offsets that went back, offsets of failed commits, and partitions with two owners."""
    commits: defaultdict[_At, list[tuple[int, Operation]]] = defaultdict(list)
    fetched: defaultdict[_At, list[tuple[int, Operation]]] = defaultdict(list)
    owners: dict[Owns, Operation] = {}
    for operation in facts.operations:
        for step in operation.steps:
            if isinstance(step, Commit):
                commits[_At(step.group, step.key)].append((step.offset, operation))
            elif isinstance(step, OffsetFetch) and operation.outcome is Outcome.OK:
                offset = _NOTHING if step.offset is None else step.offset
                fetched[_At(step.group, step.key)].append((offset, operation))
            elif isinstance(step, Owns):
                _check_owner(step, operation, owners, verdict)
    for at, fetches in fetched.items():
        _check_monotonic(at, commits[at], fetches, verdict)
        _check_aborted(at, commits[at], fetches, verdict)


def _check_owner(
    owns: Owns, operation: Operation, owners: dict[Owns, Operation], verdict: Verdict
) -> None:
    other = owners.setdefault(owns, operation)
    if other.process != operation.process:
        verdict.add(
            Anomaly.TWO_OWNERS,
            f"{owns.key} belongs to {other.process} and to {operation.process} in generation "
            f"{owns.generation} of {owns.group}",
            [other, operation],
        )


def _check_monotonic(
    at: _At,
    commits: list[tuple[int, Operation]],
    fetches: list[tuple[int, Operation]],
    verdict: Verdict,
) -> None:
    """Compare in the order of time: a fetch counts from its start, a commit from its end.

    A fetched offset counts like a commit: no later fetch may return less.
    """
    known = [(operation.ended, offset, operation) for offset, operation in fetches]
    known += [
        (operation.ended, offset, operation)
        for offset, operation in commits
        if operation.outcome is Outcome.OK
    ]
    known.sort(key=lambda one: one[0])
    highest, holder, place = _NOTHING, None, 0
    for offset, operation in fetches:  # these are in the order in which they began
        while place < len(known) and known[place][0] < operation.began:
            if known[place][1] > highest:
                _, highest, holder = known[place]
            place += 1
        if offset < highest and holder is not None:
            was = "no offset" if offset == _NOTHING else f"offset {offset}"
            verdict.add(
                Anomaly.OFFSET_WENT_BACK,
                f"{at.group} fetched {was} of {at.key}, after {highest} had been acknowledged",
                [holder, operation],
            )


def _check_aborted(
    at: _At,
    commits: list[tuple[int, Operation]],
    fetches: list[tuple[int, Operation]],
    verdict: Verdict,
) -> None:
    failed = {offset: one for offset, one in commits if one.outcome is Outcome.FAILED}
    possible = {offset for offset, one in commits if one.outcome is not Outcome.FAILED}
    for offset, operation in fetches:
        if offset in failed and offset not in possible:
            verdict.add(
                Anomaly.ABORTED_OFFSET,
                f"{at.group} fetched offset {offset} of {at.key}, but its commit failed or was "
                "aborted",
                [failed[offset], operation],
            )
