"""One step of a member towards its target.

A partition never has two owners: what a member gives up stays its own until it says that it no longer has
it, and what another still has is not given to a member before that.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from strom.coordination.groups.consumer.values import (
    MemberState,
    Owned,
    Partitions,
    Standing,
    TopicIdPartition,
)


@dataclass(frozen=True, kw_only=True)
class Aim:
    """Where a member is to go, and what is in its way."""

    epoch: int
    """That of the target assignment."""
    target: Partitions
    may_read: Callable[[TopicIdPartition], bool]
    """Whether the member is (still) subscribed to the partition's topic."""
    is_taken: Callable[[TopicIdPartition], bool]
    """Whether a member has the partition, this one included."""
    reported: Partitions | None
    """What the member says it has; None if it says nothing of it."""

    def still_has(self, partitions: Owned) -> bool:
        """Whether the member has not yet given up all of these, as far as it says."""
        return self.reported is None or any(one in self.reported for one in partitions)


def reconcile(has: Standing, aim: Aim, *, has_resubscribed: bool) -> Standing:
    """Where the member stands after this heartbeat."""
    if has.state is MemberState.STABLE and has.epoch == aim.epoch:
        return _give_up_unsubscribed(has, aim) if has_resubscribed else has
    if has.state is MemberState.UNREVOKED and aim.still_has(has.revoking):
        return _give_up_unsubscribed(has, aim) if has_resubscribed else has
    return _advance(has, aim)


def _give_up_unsubscribed(has: Standing, aim: Aim) -> Standing:
    """The member wants some topics no more: that need not wait for the next target."""
    gone = {one: since for one, since in has.assigned.items() if not aim.may_read(one)}
    if not gone:
        return has
    kept = {one: since for one, since in has.assigned.items() if one not in gone}
    revoking = {**has.revoking, **gone}
    if aim.still_has(revoking):
        return replace(
            has,
            state=MemberState.UNREVOKED,
            previous_epoch=has.epoch,
            assigned=kept,
            revoking=revoking,
        )
    return replace(has, previous_epoch=has.epoch, assigned=kept)


def _advance(has: Standing, aim: Aim) -> Standing:
    wanted = {one for one in aim.target if aim.may_read(one)}
    kept = {one: since for one, since in has.assigned.items() if one in wanted}
    revoking = {one: since for one, since in has.assigned.items() if one not in wanted}
    if revoking and aim.still_has(revoking):
        return Standing(
            epoch=has.epoch,
            previous_epoch=has.epoch,
            state=MemberState.UNREVOKED,
            assigned=kept,
            revoking=revoking,
        )
    missing = wanted - kept.keys()
    # What the member itself has just given up is free for it to take again.
    unreleased = {one for one in missing if aim.is_taken(one) and one not in has.revoking}
    return Standing(
        epoch=aim.epoch,
        previous_epoch=has.epoch,
        state=MemberState.UNRELEASED if unreleased else MemberState.STABLE,
        assigned=kept | dict.fromkeys(missing - unreleased, aim.epoch),
    )
