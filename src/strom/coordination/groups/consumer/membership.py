"""Members of a consumer group come, follow the target, and go."""

from collections.abc import Iterable
from dataclasses import replace

from strom.coordination.groups.consumer.commands import (
    ClassicJoinEnds,
    ClassicSyncEnds,
    ConsumerHeartbeat,
    RevocationEnds,
)
from strom.coordination.groups.consumer.group import ConsumerGroup, Draft
from strom.coordination.groups.consumer.reconciliation import Aim, reconcile
from strom.coordination.groups.consumer.records import (
    ConsumerRecord,
    GroupEpoch,
    MemberHas,
    MemberSaid,
    MemberTarget,
    PatternResolved,
    TargetEpoch,
)
from strom.coordination.groups.consumer.target import (
    may_share_out,
    raise_epoch,
    raise_epoch_if_topics_changed,
    resolve_patterns,
    share_out,
)
from strom.coordination.groups.consumer.values import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
    Partitions,
    Standing,
    Subscription,
)
from strom.coordination.groups.group import CoordinatorContext
from strom.coordination.groups.outcome import Outcome, SessionEnds
from strom.model.errors import ApiError, ErrorCode


class Step:
    """One change of a group, during one command."""

    def __init__(
        self, context: CoordinatorContext, group: ConsumerGroup, out: Outcome, now_ms: int
    ) -> None:
        self.context = context
        self.draft = Draft(group, out)
        self.out = out
        self.now_ms = now_ms

    # --- who it is -----------------------------------------------------------------------------

    def check_room(self, member_id: str) -> None:
        """GROUP_MAX_SIZE_REACHED for whoever has no place yet in a full group."""
        most = self.context.settings.group_consumer_max_size
        members = self.draft.group.members
        if len(members) >= most and member_id not in members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    def member(self, member_id: str, instance: str | None) -> ConsumerMember:
        """The member, or UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another has its place."""
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
        """The member that joins: a new one, one that is back, or one in the place of another."""
        group = self.draft.group
        former = group.static_member(instance) if instance is not None else None
        if former is None:
            return group.members.get(member_id, ConsumerMember(member_id))
        speaks_as_before = not is_classic and former.said.classic is None
        if speaks_as_before and former.has.epoch != STATIC_LEAVE_EPOCH:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance} cannot join the group because "
                f"the instance id is owned by {former.id} member.",
            )
        return self._replace(former, member_id)

    def _replace(self, former: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member comes back under a new id, and gets all that was its own."""
        group, write = self.draft.group, self.draft.write
        target = group.target(former.id)
        heir = ConsumerMember(
            member_id, former.said, replace(former.has, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        )
        self._remove(former.id)
        self.out.cancel(SessionEnds(group.id, former.id))
        write(MemberSaid(group.id, member_id, heir.said))
        write(MemberTarget(group.id, member_id, target))
        write(MemberHas(group.id, member_id, heir.has))
        return heir

    # --- the way to the target -----------------------------------------------------------------

    def follow(
        self, before: ConsumerMember, said: Subscription, reported: Partitions | None
    ) -> ConsumerMember:
        """Take on what a member says, share out anew if that matters, and move it on."""
        draft, topics = self.draft, self.context.topics
        read_before = draft.group.topics_of(before.said)
        if said != before.said or before.id not in draft.group.members:
            draft.write(MemberSaid(draft.group.id, before.id, said))
        names_changed = said.topics != before.said.topics
        pattern_changed = (said.pattern or "") != (before.said.pattern or "")
        is_outdated = draft.take_outdated()
        if pattern_changed or is_outdated:
            resolve_patterns(draft, topics, self.now_ms)
        if names_changed or draft.group.topics_of(said) != read_before:
            raise_epoch(draft, topics)
        elif is_outdated:
            raise_epoch_if_topics_changed(draft, topics)
        interval_ms = self.context.settings_of(draft.group.id).consumer_assignment_interval_ms
        if may_share_out(draft, interval_ms, self.now_ms):
            default = self.context.settings.group_consumer_assignors[0]
            share_out(draft, topics, default, self.now_ms)
        self._reconcile(before.id, reported, resubscribed=names_changed or pattern_changed)
        return draft.group.members[before.id]

    def _reconcile(
        self, member_id: str, reported: Partitions | None, *, resubscribed: bool
    ) -> None:
        group = self.draft.group
        member = group.members[member_id]
        names = group.topics_of(member.said)
        find = self.context.topics.find
        readable = {facts.id for name in names if (facts := find(name)) is not None}
        aim = Aim(
            epoch=group.target_epoch,
            target=group.target(member_id),
            may_read=lambda one: one.topic_id in readable,
            is_taken=lambda one: one in group.owners,
            reported=reported,
        )
        has = reconcile(member.has, aim, has_resubscribed=resubscribed)
        if has != member.has:
            self.draft.write(MemberHas(group.id, member_id, has))
            self._watch_revocation(member, has)

    def _watch_revocation(self, member: ConsumerMember, has: Standing) -> None:
        if member.said.classic is not None:
            return  # it has its own times, for joining and for asking what it gets
        timer = RevocationEnds(self.draft.group.id, member.id)
        if has.state is MemberState.UNREVOKED:
            self.out.set_timer(timer, member.said.rebalance_timeout_ms)
        else:
            self.out.cancel(timer)

    def renew_session(self, member: ConsumerMember) -> None:
        """The member is alive: its session begins anew."""
        group_id = self.draft.group.id
        if member.said.classic is not None:
            timeout_ms = member.said.classic.session_timeout_ms
        else:
            timeout_ms = self.context.settings_of(group_id).consumer_session_timeout_ms
        self.out.set_timer(SessionEnds(group_id, member.id), timeout_ms)

    # --- going ---------------------------------------------------------------------------------

    def leave_for_a_while(self, member: ConsumerMember) -> None:
        """A static member goes and will be back: nobody else gets what it has."""
        has = replace(member.has, epoch=STATIC_LEAVE_EPOCH, revoking={})
        self.draft.write(MemberHas(self.draft.group.id, member.id, has))

    def put_out(self, member_ids: Iterable[str]) -> None:
        """Take members out; what they had is free for the others."""
        for member_id in member_ids:
            self._remove(member_id)
            self.out.cancel(SessionEnds(self.draft.group.id, member_id))
            for timer in (RevocationEnds, ClassicJoinEnds, ClassicSyncEnds):
                self.out.cancel(timer(self.draft.group.id, member_id))
            self.draft.group.awaited.discard(member_id)
        group = self.draft.group
        for pattern in sorted(group.patterns):
            if not group.uses_pattern(pattern):
                self.draft.write(PatternResolved(group.id, pattern, None))
        raise_epoch(self.draft, self.context.topics)

    def _remove(self, member_id: str) -> None:
        group_id, write = self.draft.group.id, self.draft.write
        write(MemberHas(group_id, member_id, None))
        write(MemberTarget(group_id, member_id, None))
        write(MemberSaid(group_id, member_id, None))


def check_epoch(member: ConsumerMember, command: ConsumerHeartbeat) -> None:
    """FENCED_MEMBER_EPOCH unless it is the member's epoch, or the last if the answer was lost."""
    told, has = command.epoch, member.has
    if told in (JOIN_EPOCH, has.epoch):
        return
    holds_only_its_own = command.owned is not None and command.owned <= has.assigned.keys()
    if told == has.previous_epoch and told < has.epoch and holds_only_its_own:
        return
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if told > has.epoch else 'smaller'} member epoch "
        f"({told}) than the one known by the group coordinator ({has.epoch}). The member must abandon "
        "all its partitions and rejoin.",
    )


def tombstones(group: ConsumerGroup) -> list[ConsumerRecord]:
    """The records that end a group, with all members that it has."""
    members = sorted(group.members)
    return [
        *(MemberHas(group.id, member, None) for member in members),
        *(MemberTarget(group.id, member, None) for member in sorted({*members, *group.targets})),
        TargetEpoch(group.id, None),
        *(MemberSaid(group.id, member, None) for member in members),
        *(PatternResolved(group.id, pattern, None) for pattern in sorted(group.patterns)),
        GroupEpoch(group.id, None),
    ]
