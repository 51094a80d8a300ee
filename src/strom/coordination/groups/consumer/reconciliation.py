"""One step of a member's reconciliation with its target assignment.

A partition never has two owners: a revoked partition stays with its member until the member confirms the
revocation, and is assigned to another member only then.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from strom.coordination.groups.consumer.records import (
    CurrentAssignment,
    MemberState,
    Owned,
    Partitions,
    TopicIdPartition,
)


@dataclass(frozen=True, kw_only=True)
class ReconciliationTarget:
    """The target of a member, and what limits its next step."""

    epoch: int
    """That of the target assignment."""
    target: Partitions
    may_read: Callable[[TopicIdPartition], bool]
    """Whether the member is (still) subscribed to the partition's topic."""
    is_taken: Callable[[TopicIdPartition], bool]
    """Whether any member owns the partition, this one included."""
    reported: Partitions | None
    """The partitions that the member reports to own; None if it reports none."""

    def still_has(self, partitions: Owned) -> bool:
        """Whether the member has not confirmed the revocation of all of these."""
        return self.reported is None or any(one in self.reported for one in partitions)


def reconcile(
    current: CurrentAssignment, aim: ReconciliationTarget, *, has_resubscribed: bool
) -> CurrentAssignment:
    """The member's current assignment after this heartbeat."""
    if current.state is MemberState.STABLE and current.epoch == aim.epoch:
        return _revoke_unsubscribed(current, aim) if has_resubscribed else current
    if current.state is MemberState.UNREVOKED and aim.still_has(current.revoking):
        return _revoke_unsubscribed(current, aim) if has_resubscribed else current
    return _advance(current, aim)


def _revoke_unsubscribed(
    current: CurrentAssignment, aim: ReconciliationTarget
) -> CurrentAssignment:
    """Revoke topics that the member has unsubscribed, without waiting for the next target."""
    gone = {one: since for one, since in current.assigned.items() if not aim.may_read(one)}
    if not gone:
        return current
    kept = {one: since for one, since in current.assigned.items() if one not in gone}
    revoking = {**current.revoking, **gone}
    if aim.still_has(revoking):
        return replace(
            current,
            state=MemberState.UNREVOKED,
            previous_epoch=current.epoch,
            assigned=kept,
            revoking=revoking,
        )
    return replace(current, previous_epoch=current.epoch, assigned=kept)


def _advance(current: CurrentAssignment, aim: ReconciliationTarget) -> CurrentAssignment:
    wanted = {one for one in aim.target if aim.may_read(one)}
    kept = {one: since for one, since in current.assigned.items() if one in wanted}
    revoking = {one: since for one, since in current.assigned.items() if one not in wanted}
    if revoking and aim.still_has(revoking):
        return CurrentAssignment(
            epoch=current.epoch,
            previous_epoch=current.epoch,
            state=MemberState.UNREVOKED,
            assigned=kept,
            revoking=revoking,
        )
    missing = wanted - kept.keys()
    # Partitions that the member itself has just revoked can be assigned to it again.
    unreleased = {one for one in missing if aim.is_taken(one) and one not in current.revoking}
    return CurrentAssignment(
        epoch=aim.epoch,
        previous_epoch=current.epoch,
        state=MemberState.UNRELEASED if unreleased else MemberState.STABLE,
        assigned=kept | dict.fromkeys(missing - unreleased, aim.epoch),
    )
