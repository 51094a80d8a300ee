"""The share group protocol (KIP-932): heartbeats in; assignments out.

The whole state of a group comes from the log. Several members may share a partition. Which of its records
a member gets is decided when it fetches (`partitions/`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from strom.coordination.groups.commands import (
    CommitOffsets,
    GroupCommand,
    GroupOutcome,
    GroupResponse,
    SessionTimeout,
    StatusResponse,
    Ticket,
    Timer,
)
from strom.coordination.groups.group import Group, GroupProtocol, GroupType
from strom.coordination.groups.share.records import (
    RECORDS,
    KnownTopic,
    MemberAssignment,
    Partitions,
    ShareCurrent,
    ShareGroupEpoch,
    ShareGroupRecord,
    ShareMemberSubscription,
    ShareSubscription,
    ShareTarget,
    ShareTargetEpoch,
    ShareTopics,
)
from strom.coordination.groups.share.target import (
    ShareTargets,
    compute_targets,
    hash_of,
    takes_long,
    topics_of,
)
from strom.coordination.groups.topics_image import TopicInfo
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import run_at_once
from strom.wire.kafka.schema import Uuid

ASSIGNOR = "simple"
NEW_EPOCH = 0
NOTHING_YET = MemberAssignment(NEW_EPOCH, NEW_EPOCH, {})
UNKNOWN = ShareSubscription(None, "", "", ())


@dataclass
class ShareGroupMember:
    """One member: its subscription, its target and its current assignment."""

    id: str
    subscription: ShareSubscription
    target: Partitions = field(default_factory=dict)
    assigned: MemberAssignment = NOTHING_YET

    def check_epoch(self, epoch: int) -> None:
        """FENCED_MEMBER_EPOCH unless it is the member's current or previous epoch."""
        if epoch not in (NEW_EPOCH, self.assigned.epoch, self.assigned.previous_epoch):
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The member epoch is {self.assigned.epoch}, not {epoch}; the member must rejoin.",
            )


class ShareGroup(Group):
    kind: ClassVar[GroupType] = GroupType.SHARE

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.protocol_type = "share"
        self.since_ms = -1
        self.epoch = 0
        self.topics_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ShareGroupMember] = {}
        self._held_bytes = 0
        self.known_topics: dict[Uuid, KnownTopic] = {}
        """Every topic for which the group has share state."""

    @property
    def state_name(self) -> str:
        """Empty or Stable: share groups need no rebalance."""
        return "Stable" if self.members else "Empty"

    @property
    def may_expire(self) -> bool:
        """Never: the state of a share group is deleted only by an administrator."""
        return False

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def member_bytes(self, member_id: str, instance: str | None) -> int:
        found = self.members.get(member_id)
        return 0 if found is None else found.subscription.held_bytes

    def subscribe(self, member_id: str, subscription: ShareSubscription) -> None:
        """Set the subscription of a new or known member."""
        member = self.get_or_create(member_id)
        self._held_bytes += subscription.held_bytes - member.subscription.held_bytes
        member.subscription = subscription

    def remove(self, member_id: str) -> None:
        self._held_bytes -= self.member_bytes(member_id, None)
        self.members.pop(member_id, None)

    def get_or_create(self, member_id: str) -> ShareGroupMember:
        return self.members.setdefault(member_id, ShareGroupMember(member_id, UNKNOWN))

    def reads(self, topic: str) -> bool:
        return any(topic in member.subscription.topics for member in self.members.values())

    def member(self, member_id: str) -> ShareGroupMember:
        """The member, or UNKNOWN_MEMBER_ID."""
        found = self.members.get(member_id)
        if found is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.id}.",
            )
        return found


LEAVING = -1


@dataclass(frozen=True, kw_only=True)
class ShareHeartbeat:
    """Join (epoch 0), stay in or leave (-1) a group."""

    group: str
    member: str
    epoch: int
    rack: str | None = None
    topics: tuple[str, ...] | None = None
    """None if unchanged."""
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, kw_only=True)
class DeleteShareTopics:
    """Delete the state of topics in an empty group."""

    group: str
    topic_ids: frozenset[Uuid]


@dataclass(frozen=True, kw_only=True)
class AddShareTopics:
    """Add topics to an empty group, so that it can have offsets in them."""

    group: str
    topics: tuple[KnownTopic, ...]


@dataclass(frozen=True, kw_only=True)
class ShareHeartbeatResponse(GroupResponse):
    message: str | None = None
    member: str = ""
    epoch: int = 0
    heartbeat_ms: int = 0
    partitions: Partitions | None = None
    """None if unchanged."""


class ShareGroupProtocol(GroupProtocol[ShareGroup]):
    kind = GroupType.SHARE
    commands: ClassVar[tuple[type[GroupCommand], ...]] = (
        ShareHeartbeat,
        DeleteShareTopics,
        AddShareTopics,
    )
    records = RECORDS

    def handle(
        self,
        command: ShareHeartbeat | DeleteShareTopics | AddShareTopics,
        ticket: Ticket,
        out: GroupOutcome,
        now_ms: int,
    ) -> None:
        """Handle a command; responses never wait for other members."""
        match command:
            case DeleteShareTopics():
                self._forget_topics(command, ticket, out)
            case AddShareTopics():
                self._know_topics(command, ticket, out)
            case ShareHeartbeat() if command.epoch == LEAVING:
                self._leave(command, ticket, out, now_ms)
            case ShareHeartbeat():
                self._heartbeat(command, ticket, out, now_ms)

    def error_response(
        self, command: ShareHeartbeat | DeleteShareTopics | AddShareTopics, code: ErrorCode
    ) -> GroupResponse:
        if isinstance(command, ShareHeartbeat):
            return ShareHeartbeatResponse(code=code)
        return StatusResponse(code=code)

    def on_timer(self, group: ShareGroup, timer: Timer, out: GroupOutcome, now_ms: int) -> None:
        if isinstance(timer, SessionTimeout) and timer.member in group.members:
            self._remove(group, timer.member, out, now_ms)

    def resume(self, group: ShareGroup, out: GroupOutcome) -> None:
        for member_id in group.members:
            self._renew_session(group.id, member_id, out)

    def check_may_commit(
        self, group: ShareGroup, command: CommitOffsets, out: GroupOutcome, now_ms: int
    ) -> None:
        """Always rejected: share groups acknowledge records instead."""
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    def delete(self, group: ShareGroup, out: GroupOutcome) -> None:
        out.write(ShareTopics(group.id, None))
        out.write(ShareTargetEpoch(group.id, None))
        out.write(ShareGroupEpoch(group.id, None))

    def on_topics_changed(self, now_ms: int) -> Iterable[GroupOutcome | None]:
        """Assign again in every group that is subscribed to one of the topics."""
        groups = self.context.groups
        for group in list(groups.values()):
            outcome = None
            # Little is done for the others, because there may be 100,000. One that was deleted
            # meanwhile is not assigned.
            if isinstance(group, ShareGroup) and groups.get(group.id) is group:
                group.is_outdated = True
                out = GroupOutcome(group.id)
                if group.members:
                    self._assign_if_changed(group, {}, out, now_ms)
                outcome = out if out.records else None
            yield outcome

    # --- the log -------------------------------------------------------------------------------

    def replay(self, record: ShareGroupRecord) -> None:
        match record:
            case ShareGroupEpoch(epoch=None):
                if self.find(record.group) is not None:
                    del self.context.groups[record.group]
            case ShareGroupEpoch():
                group = self._get_or_create(record.group)
                group.epoch, group.topics_hash = record.epoch or 0, record.topics_hash
            case ShareTargetEpoch():
                if record.epoch is not None:
                    self._get_or_create(record.group).assignment_epoch = record.epoch
            case ShareTopics():
                if record.topics is not None:
                    group = self._get_or_create(record.group)
                    group.known_topics = {topic.id: topic for topic in record.topics}
            case ShareMemberSubscription() | ShareTarget() | ShareCurrent():
                self._replay_member(record)

    def _replay_member(self, record: ShareMemberSubscription | ShareTarget | ShareCurrent) -> None:
        """Apply a record of a member; in a compacted log any of them may be the first."""
        match record:
            case ShareMemberSubscription(subscription=None):
                group = self.find(record.group)
                if group is not None:
                    group.remove(record.member)
            case ShareMemberSubscription(subscription=ShareSubscription() as subscription):
                self._get_or_create(record.group).subscribe(record.member, subscription)
            case ShareTarget(partitions=None) | ShareCurrent(assigned=None):
                pass  # the tombstone of the member follows
            case ShareTarget():
                member = self._get_or_create(record.group).get_or_create(record.member)
                member.target = record.partitions or {}
            case ShareCurrent(assigned=MemberAssignment() as assigned):
                self._get_or_create(record.group).get_or_create(record.member).assigned = assigned

    def _get_or_create(self, group_id: str) -> ShareGroup:
        group = self.find(group_id)
        if group is None:
            group = self.context.groups[group_id] = ShareGroup(group_id)
        return group

    # --- members -------------------------------------------------------------------------------

    def _existing(self, group_id: str) -> ShareGroup:
        group = self.find(group_id)
        if group is None:
            is_other = group_id in self.context.groups
            raise ApiError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {group_id} is not a share group."
                if is_other
                else f"Group {group_id} not found.",
            )
        return group

    def _heartbeat(
        self, command: ShareHeartbeat, ticket: Ticket, out: GroupOutcome, now_ms: int
    ) -> None:
        joins = command.epoch == NEW_EPOCH
        if joins and command.group not in self.context.groups:
            group = ShareGroup(command.group)  # it is registered when its records are replayed
        else:
            group = self._existing(command.group)
        member = self._member(group, command) if not joins else group.members.get(command.member)
        max_size = self.context.settings.group_share_max_size
        if member is None and len(group.members) >= max_size:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum of {max_size} members.",
            )
        subscription = _introduction(command, member)
        changed = {}
        if member is None or subscription != member.subscription:
            changed[command.member] = subscription
            out.write(ShareMemberSubscription(group.id, command.member, subscription))
        targets = self._assign_if_changed(group, changed, out, now_ms)
        assigned = member.assigned if member is not None else NOTHING_YET
        epoch, partitions = targets.epoch, targets.of(command.member)
        if assigned.epoch != epoch or assigned.partitions != partitions:
            out.write(
                ShareCurrent(
                    group.id, command.member, MemberAssignment(epoch, assigned.epoch, partitions)
                )
            )
        self._renew_session(group.id, command.member, out)
        sends_assignment = command.epoch != epoch or assigned.partitions != partitions
        out.respond(
            ticket,
            ShareHeartbeatResponse(
                member=command.member,
                epoch=epoch,
                heartbeat_ms=self.context.settings_of(group.id).share_heartbeat_interval_ms,
                partitions=partitions if sends_assignment else None,
            ),
        )

    @staticmethod
    def _member(group: ShareGroup, command: ShareHeartbeat) -> ShareGroupMember:
        member = group.member(command.member)
        member.check_epoch(command.epoch)
        return member

    def _leave(
        self, command: ShareHeartbeat, ticket: Ticket, out: GroupOutcome, now_ms: int
    ) -> None:
        group = self._existing(command.group)
        group.member(command.member)
        self._remove(group, command.member, out, now_ms)
        out.respond(ticket, ShareHeartbeatResponse(member=command.member, epoch=LEAVING))

    def _remove(self, group: ShareGroup, member_id: str, out: GroupOutcome, now_ms: int) -> None:
        out.cancel(SessionTimeout(group.id, member_id))
        out.write(ShareCurrent(group.id, member_id, None))
        out.write(ShareTarget(group.id, member_id, None))
        out.write(ShareMemberSubscription(group.id, member_id, None))
        self._assign_if_changed(group, {}, out, now_ms, without=member_id)

    def _renew_session(self, group_id: str, member_id: str, out: GroupOutcome) -> None:
        timeout_ms = self.context.settings_of(group_id).share_session_timeout_ms
        out.set_timer(SessionTimeout(group_id, member_id), timeout_ms)

    # --- assignment ----------------------------------------------------------------------------

    def _assign_if_changed(
        self,
        group: ShareGroup,
        changed: dict[str, ShareSubscription],
        out: GroupOutcome,
        now_ms: int,
        *,
        without: str | None = None,
    ) -> ShareTargets:
        """Assign again if members or topics have changed; returns the targets that members have now."""
        known = {member.id: member.target for member in group.members.values()}
        out.needs_assignment = group.epoch > group.assignment_epoch and bool(known)
        if not changed and without is None and not group.is_outdated:
            return ShareTargets(group.assignment_epoch, known)
        group.is_outdated = False
        subscriptions = {
            member.id: member.subscription for member in group.members.values()
        } | changed
        subscriptions.pop(without or "", None)
        topics = topics_of(subscriptions.values(), self.context.topics)
        topics_hash = hash_of(topics)
        if not changed and without is None and topics_hash == group.topics_hash:
            return ShareTargets(group.assignment_epoch, known)
        epoch = group.epoch + 1
        out.write(ShareGroupEpoch(group.id, epoch, topics_hash))
        self._update_known_topics(group, topics, out)
        out.needs_assignment = False
        if not subscriptions:
            return ShareTargets(epoch, {})
        # The first assignment does not wait: without one, members would have no epoch but that of a join.
        limit = self.context.assign_at_once
        if group.assignment_epoch and takes_long(subscriptions, topics, limit):
            out.needs_assignment = True
            return ShareTargets(group.assignment_epoch, known)
        targets = run_at_once(compute_targets(epoch, subscriptions, topics, known))
        for member_id, partitions in targets.partitions.items():
            self._write_target(group, member_id, partitions, out)
        out.write(ShareTargetEpoch(group.id, epoch, now_ms))
        return targets

    def assign(self, group: ShareGroup, now_ms: int) -> Iterator[GroupOutcome | None]:
        epoch = group.epoch
        subscriptions = {one.id: one.subscription for one in group.members.values()}
        before = {one.id: one.target for one in group.members.values()}
        topics = topics_of(subscriptions.values(), self.context.topics)
        yield None
        targets = yield from compute_targets(epoch, subscriptions, topics, before)
        if self.find(group.id) is not group or epoch <= group.assignment_epoch:
            return  # the group was deleted, or became small and was assigned at once
        out = GroupOutcome(group.id)
        for member_id, partitions in targets.partitions.items():
            if member_id in group.members:
                self._write_target(group, member_id, partitions, out)
        out.write(ShareTargetEpoch(group.id, epoch, now_ms))
        yield out

    @staticmethod
    def _write_target(
        group: ShareGroup, member_id: str, partitions: Partitions, out: GroupOutcome
    ) -> None:
        known = group.members.get(member_id)
        if known is None or known.target != partitions:
            out.write(ShareTarget(group.id, member_id, partitions))

    def _update_known_topics(
        self, group: ShareGroup, topics: list[TopicInfo], out: GroupOutcome
    ) -> None:
        """Add new topics, and remove deleted ones: a recreated topic has another id."""
        image = self.context.topics
        known = {
            topic.id: topic
            for topic in group.known_topics.values()
            if image.find_id(topic.id) is not None
        }
        known |= {topic.id: KnownTopic(topic.name, topic.id, topic.partitions) for topic in topics}
        if known != group.known_topics:
            out.write(ShareTopics(group.id, tuple(known.values())))

    # --- administration ------------------------------------------------------------------------

    def _forget_topics(self, command: DeleteShareTopics, ticket: Ticket, out: GroupOutcome) -> None:
        group = self._empty(command.group)
        known = group.known_topics.values()
        left = tuple(one for one in known if one.id not in command.topic_ids)
        if len(left) < len(group.known_topics):
            out.write(ShareTopics(group.id, left))
        out.respond(ticket, StatusResponse())

    def _know_topics(self, command: AddShareTopics, ticket: Ticket, out: GroupOutcome) -> None:
        if command.group in self.context.groups:
            group = self._empty(command.group)
        else:
            group = ShareGroup(command.group)
            out.write(ShareGroupEpoch(group.id, 0, 0))
        known = group.known_topics | {topic.id: topic for topic in command.topics}
        if known != group.known_topics:
            out.write(ShareTopics(group.id, tuple(known.values())))
        out.respond(ticket, StatusResponse())

    def _empty(self, group_id: str) -> ShareGroup:
        group = self._existing(group_id)
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        return group


def _introduction(command: ShareHeartbeat, member: ShareGroupMember | None) -> ShareSubscription:
    """The subscription of a heartbeat; omitted fields keep their values."""
    before = member.subscription if member is not None else UNKNOWN
    return ShareSubscription(
        before.rack if command.rack is None else command.rack,
        command.client_id,
        command.client_host,
        before.topics if command.topics is None else tuple(sorted(set(command.topics))),
    )
