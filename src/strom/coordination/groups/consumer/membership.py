"""How members of a consumer group join, reconcile and leave."""

from collections.abc import Iterable
from dataclasses import replace

from strom.coordination.groups.commands import GroupOutcome, SessionTimeout
from strom.coordination.groups.consumer.commands import (
    ClassicJoinTimeout,
    ClassicSyncTimeout,
    ConsumerHeartbeat,
    RevocationTimeout,
)
from strom.coordination.groups.consumer.group import ConsumerGroup, GroupDraft
from strom.coordination.groups.consumer.reconciliation import ReconciliationTarget, reconcile
from strom.coordination.groups.consumer.records import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    ConsumerRecord,
    CurrentAssignment,
    GroupEpoch,
    MemberCurrent,
    MemberState,
    MemberSubscription,
    MemberTarget,
    Partitions,
    PatternResolved,
    Subscription,
    TargetEpoch,
)
from strom.coordination.groups.consumer.target import (
    can_assign,
    compute_target,
    raise_epoch,
    raise_epoch_if_topics_changed,
    resolve_patterns,
    takes_long,
    write_target,
)
from strom.coordination.groups.group import CoordinatorContext
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import run_at_once


class MembershipUpdate:
    """The effect of one command on a group."""

    def __init__(
        self, context: CoordinatorContext, group: ConsumerGroup, out: GroupOutcome, now_ms: int
    ) -> None:
        self.context = context
        self.draft = GroupDraft(group, out)
        self.out = out
        self.now_ms = now_ms

    # --- identity ------------------------------------------------------------------------------

    def check_room(self, member_id: str) -> None:
        """GROUP_MAX_SIZE_REACHED if the member is new and the group is full."""
        most = self.context.settings.group_consumer_max_size
        members = self.draft.group.members
        if len(members) >= most and member_id not in members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    def member(self, member_id: str, instance: str | None) -> ConsumerMember:
        """The member; UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has its instance id."""
        group = self.draft.group
        if instance is not None:
            owner = group.static_member(instance)
            if owner is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance} is unknown.")
            if owner.id != member_id:
                raise ApiError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance} was fenced by member "
                    f"{owner.id}.",
                )
            return owner
        found = group.members.get(member_id)
        if found is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {group.id}.",
            )
        return found

    def joining(self, member_id: str, instance: str | None, *, is_classic: bool) -> ConsumerMember:
        """The joining member: new, rejoining, or replacing a static member."""
        group = self.draft.group
        former = group.static_member(instance) if instance is not None else None
        if former is None:
            return group.members.get(member_id, ConsumerMember(member_id))
        keeps_protocol = not is_classic and former.subscription.classic is None
        if keeps_protocol and former.current.epoch != STATIC_LEAVE_EPOCH:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance} cannot join the group because "
                f"the instance id is owned by {former.id} member.",
            )
        return self._replace(former, member_id)

    def _replace(self, former: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member returns with a new id, and keeps its assignments."""
        group, write = self.draft.group, self.draft.write
        target = group.target(former.id)
        replacement = ConsumerMember(
            member_id,
            former.subscription,
            replace(former.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH),
        )
        self._remove(former.id)
        self.out.cancel(SessionTimeout(group.id, former.id))
        write(MemberSubscription(group.id, member_id, replacement.subscription))
        write(MemberTarget(group.id, member_id, target))
        write(MemberCurrent(group.id, member_id, replacement.current))
        return replacement

    # --- reconciliation ------------------------------------------------------------------------

    def follow(
        self, before: ConsumerMember, subscription: Subscription, reported: Partitions | None
    ) -> ConsumerMember:
        """Update a member's subscription, assign again if that is needed, and reconcile the member."""
        draft, topics = self.draft, self.context.topics
        read_before = draft.group.topics_of(before.subscription)
        if subscription != before.subscription or before.id not in draft.group.members:
            draft.write(MemberSubscription(draft.group.id, before.id, subscription))
        names_changed = subscription.topics != before.subscription.topics
        pattern_changed = (subscription.pattern or "") != (before.subscription.pattern or "")
        is_outdated = draft.take_outdated()
        if pattern_changed or is_outdated:
            resolve_patterns(draft, topics, self.now_ms)
        if names_changed or draft.group.topics_of(subscription) != read_before:
            raise_epoch(draft, topics)
        elif is_outdated:
            raise_epoch_if_topics_changed(draft, topics)
        interval_ms = self.context.settings_of(draft.group.id).consumer_assignment_interval_ms
        if can_assign(draft, interval_ms, self.now_ms):
            self._assign()
        self._reconcile(before.id, reported, resubscribed=names_changed or pattern_changed)
        return draft.group.members[before.id]

    def _assign(self) -> None:
        """Assign at once, or leave it to the background if the group is large."""
        group, topics = self.draft.group, self.context.topics
        # The first assignment does not wait: without one, members would have no epoch but that of a join.
        if group.target_epoch and takes_long(group, topics, self.context.assign_at_once):
            self.out.needs_assignment = True
            return
        default = self.context.settings.group_consumer_assignors[0]
        target = run_at_once(compute_target(group, topics, default))
        write_target(self.draft, target, self.now_ms)

    def _reconcile(
        self, member_id: str, reported: Partitions | None, *, resubscribed: bool
    ) -> None:
        group = self.draft.group
        member = group.members[member_id]
        names = group.topics_of(member.subscription)
        find = self.context.topics.find
        readable = {facts.id for name in names if (facts := find(name)) is not None}
        aim = ReconciliationTarget(
            epoch=group.target_epoch,
            target=group.target(member_id),
            may_read=lambda one: one.topic_id in readable,
            is_taken=lambda one: one in group.owners,
            reported=reported,
        )
        current = reconcile(member.current, aim, has_resubscribed=resubscribed)
        if current != member.current:
            self.draft.write(MemberCurrent(group.id, member_id, current))
            self._watch_revocation(member, current)

    def _watch_revocation(self, member: ConsumerMember, current: CurrentAssignment) -> None:
        if member.subscription.classic is not None:
            return  # it has the timers of the classic protocol
        timer = RevocationTimeout(self.draft.group.id, member.id)
        if current.state is MemberState.UNREVOKED:
            self.out.set_timer(timer, member.subscription.rebalance_timeout_ms)
        else:
            self.out.cancel(timer)

    def renew_session(self, member: ConsumerMember) -> None:
        group_id = self.draft.group.id
        if member.subscription.classic is not None:
            timeout_ms = member.subscription.classic.session_timeout_ms
        else:
            timeout_ms = self.context.settings_of(group_id).consumer_session_timeout_ms
        self.out.set_timer(SessionTimeout(group_id, member.id), timeout_ms)

    # --- leaving -------------------------------------------------------------------------------

    def leave_temporarily(self, member: ConsumerMember) -> None:
        """A static member leaves temporarily: its partitions stay assigned to it."""
        current = replace(member.current, epoch=STATIC_LEAVE_EPOCH, revoking={})
        self.draft.write(MemberCurrent(self.draft.group.id, member.id, current))

    def remove_members(self, member_ids: Iterable[str]) -> None:
        """Remove members; their partitions are free for others."""
        for member_id in member_ids:
            self._remove(member_id)
            self.out.cancel(SessionTimeout(self.draft.group.id, member_id))
            for timer in (RevocationTimeout, ClassicJoinTimeout, ClassicSyncTimeout):
                self.out.cancel(timer(self.draft.group.id, member_id))
            self.draft.group.awaited.discard(member_id)
        group = self.draft.group
        for pattern in sorted(group.patterns):
            if not group.uses_pattern(pattern):
                self.draft.write(PatternResolved(group.id, pattern, None))
        raise_epoch(self.draft, self.context.topics)

    def _remove(self, member_id: str) -> None:
        group_id, write = self.draft.group.id, self.draft.write
        write(MemberCurrent(group_id, member_id, None))
        write(MemberTarget(group_id, member_id, None))
        write(MemberSubscription(group_id, member_id, None))


def check_epoch(member: ConsumerMember, command: ConsumerHeartbeat) -> None:
    """FENCED_MEMBER_EPOCH unless it is the member epoch, or the previous one after a lost response."""
    epoch, current = command.epoch, member.current
    if epoch in (JOIN_EPOCH, current.epoch):
        return
    owns_only_assigned = command.owned is not None and command.owned <= current.assigned.keys()
    if epoch == current.previous_epoch and epoch < current.epoch and owns_only_assigned:
        return
    relation = "greater" if epoch > current.epoch else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({current.epoch}). The member must abandon all its partitions and rejoin.",
    )


def tombstones(group: ConsumerGroup) -> list[ConsumerRecord]:
    """The tombstones of a group and all of its members."""
    members = sorted(group.members)
    return [
        *(MemberCurrent(group.id, member, None) for member in members),
        *(MemberTarget(group.id, member, None) for member in sorted({*members, *group.targets})),
        TargetEpoch(group.id, None),
        *(MemberSubscription(group.id, member, None) for member in members),
        *(PatternResolved(group.id, pattern, None) for pattern in sorted(group.patterns)),
        GroupEpoch(group.id, None),
    ]
