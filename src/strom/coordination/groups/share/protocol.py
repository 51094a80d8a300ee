"""The rules of share groups: members say what they want to read, and are assigned what they may.

Several members may read one partition. Which of its records each of them gets is not decided here
but when they fetch (`coordination/shares/`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from strom.coordination.groups.commands import Command, Commit
from strom.coordination.groups.group import GroupProtocol, GroupType
from strom.coordination.groups.outcome import Answer, Answered, Outcome, SessionEnds, Ticket, Timer
from strom.coordination.groups.share.assignor import share_out
from strom.coordination.groups.share.group import (
    NEW_EPOCH,
    NOTHING_YET,
    ShareGroup,
    ShareGroupMember,
    hash_of,
    topics_of,
)
from strom.coordination.groups.share.records import (
    Introduction,
    KnownTopic,
    MemberAssignment,
    Partitions,
    ShareCurrent,
    ShareGroupEpoch,
    ShareGroupRecord,
    ShareMember,
    ShareTarget,
    ShareTargetEpoch,
    ShareTopics,
)
from strom.coordination.groups.topics_image import TopicFacts
from strom.model.errors import ApiError, ErrorCode
from strom.wire.kafka.schema import Uuid

LEAVING = -1
UNKNOWN = Introduction(None, "", "", ())


@dataclass(frozen=True, kw_only=True)
class ShareHeartbeat:
    """Join (epoch 0), be alive, or leave (-1)."""

    group: str
    member: str
    epoch: int
    rack: str | None = None
    topics: tuple[str, ...] | None = None
    """None if they are those of the last time."""
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, kw_only=True)
class ForgetShareTopics:
    """Have an empty group forget topics."""

    group: str
    topic_ids: frozenset[Uuid]


@dataclass(frozen=True, kw_only=True)
class KnowShareTopics:
    """Have an empty group know topics, so that it has a place in them."""

    group: str
    topics: tuple[KnownTopic, ...]


@dataclass(frozen=True, kw_only=True)
class ShareHeartbeatAnswer:
    """The response to a heartbeat."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member: str = ""
    epoch: int = 0
    heartbeat_ms: int = 0
    partitions: Partitions | None = None
    """None if they are those of the last time."""

    def failed(self, code: ErrorCode) -> "ShareHeartbeatAnswer":
        """The same answer, had the records not been written."""
        return ShareHeartbeatAnswer(code=code)


class ShareGroups(GroupProtocol[ShareGroup]):
    """Heartbeats of share groups."""

    kind = GroupType.SHARE
    commands: ClassVar[tuple[type[Command], ...]] = (
        ShareHeartbeat,
        ForgetShareTopics,
        KnowShareTopics,
    )
    records = (
        ShareMember,
        ShareGroupEpoch,
        ShareTargetEpoch,
        ShareTarget,
        ShareCurrent,
        ShareTopics,
    )

    def handle(
        self,
        command: ShareHeartbeat | ForgetShareTopics | KnowShareTopics,
        ticket: Ticket,
        out: Outcome,
        now_ms: int,
    ) -> None:
        """Do what is asked; nobody ever waits for others."""
        match command:
            case ForgetShareTopics():
                self._forget_topics(command, ticket, out)
            case KnowShareTopics():
                self._know_topics(command, ticket, out)
            case ShareHeartbeat() if command.epoch == LEAVING:
                self._leave(command, ticket, out, now_ms)
            case ShareHeartbeat():
                self._heartbeat(command, ticket, out, now_ms)

    def refusal(
        self, command: ShareHeartbeat | ForgetShareTopics | KnowShareTopics, code: ErrorCode
    ) -> Answer:
        """An answer in the form that the command expects."""
        if isinstance(command, ShareHeartbeat):
            return ShareHeartbeatAnswer(code=code)
        return Answered(code=code)

    def timer_fired(self, group: ShareGroup, timer: Timer, out: Outcome, now_ms: int) -> None:
        """Put out a member that was silent for too long."""
        if isinstance(timer, SessionEnds) and timer.member in group.members:
            self._remove(group, timer.member, out, now_ms)

    def resume(self, group: ShareGroup, out: Outcome) -> None:
        """Everyone gets a session's time."""
        for member_id in group.members:
            self._renew_session(group.id, member_id, out)

    def check_may_commit(
        self, group: ShareGroup, command: Commit, out: Outcome, now_ms: int
    ) -> None:
        """Nobody may: share groups acknowledge instead."""
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    def forget(self, group: ShareGroup, out: Outcome) -> None:
        """The records that end a group without members."""
        out.write(ShareTopics(group.id, None))
        out.write(ShareTargetEpoch(group.id, None))
        out.write(ShareGroupEpoch(group.id, None))

    def topics_changed(self, now_ms: int) -> Iterable[Outcome]:
        """Share the partitions out anew in every group that reads one of the topics."""
        for group in list(self.context.groups.values()):
            if isinstance(group, ShareGroup) and group.members:
                out = Outcome(group.id)
                self._look_around(group, {}, out, now_ms)
                if out.records:
                    yield out

    # --- the log -------------------------------------------------------------------------------

    def replay(self, record: ShareGroupRecord) -> None:
        """Take a record that is in the log into the state."""
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
            case ShareMember() | ShareTarget() | ShareCurrent():
                self._replay_member(record)

    def _replay_member(self, record: ShareMember | ShareTarget | ShareCurrent) -> None:
        """In a compacted log any of a member's records may be the first one."""
        match record:
            case ShareMember(said=None):
                group = self.find(record.group)
                if group is not None:
                    group.members.pop(record.member, None)
            case ShareMember(said=Introduction() as said):
                self._get_or_create_member(record.group, record.member).said = said
            case ShareTarget(partitions=None) | ShareCurrent(assigned=None):
                pass  # it is about to go
            case ShareTarget():
                member = self._get_or_create_member(record.group, record.member)
                member.target = record.partitions or {}
            case ShareCurrent(assigned=MemberAssignment() as assigned):
                self._get_or_create_member(record.group, record.member).assigned = assigned

    def _get_or_create_member(self, group_id: str, member_id: str) -> ShareGroupMember:
        members = self._get_or_create(group_id).members
        member = members.get(member_id)
        if member is None:
            member = members[member_id] = ShareGroupMember(member_id, UNKNOWN)
        return member

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
        self, command: ShareHeartbeat, ticket: Ticket, out: Outcome, now_ms: int
    ) -> None:
        joins = command.epoch == NEW_EPOCH
        if joins and command.group not in self.context.groups:
            group = ShareGroup(command.group)  # it comes to life when its records are replayed
        else:
            group = self._existing(command.group)
        member = self._member(group, command) if not joins else group.members.get(command.member)
        if member is None and len(group.members) >= self.context.settings.group_share_max_size:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The share group has as many members as it may have.",
            )
        said = _introduction(command, member)
        changed = {}
        if member is None or said != member.said:
            changed[command.member] = said
            out.write(ShareMember(group.id, command.member, said))
        targets, epoch = self._look_around(group, changed, out, now_ms)
        assigned = member.assigned if member is not None else NOTHING_YET
        partitions = targets[command.member]
        if assigned.epoch != epoch or assigned.partitions != partitions:
            out.write(
                ShareCurrent(
                    group.id, command.member, MemberAssignment(epoch, assigned.epoch, partitions)
                )
            )
        self._renew_session(group.id, command.member, out)
        tell = command.epoch != epoch or assigned.partitions != partitions
        out.answer(
            ticket,
            ShareHeartbeatAnswer(
                member=command.member,
                epoch=epoch,
                heartbeat_ms=self.context.settings_of(group.id).share_heartbeat_interval_ms,
                partitions=partitions if tell else None,
            ),
        )

    @staticmethod
    def _member(group: ShareGroup, command: ShareHeartbeat) -> ShareGroupMember:
        member = group.member(command.member)
        member.check_epoch(command.epoch)
        return member

    def _leave(self, command: ShareHeartbeat, ticket: Ticket, out: Outcome, now_ms: int) -> None:
        group = self._existing(command.group)
        group.member(command.member)
        self._remove(group, command.member, out, now_ms)
        out.answer(ticket, ShareHeartbeatAnswer(member=command.member, epoch=LEAVING))

    def _remove(self, group: ShareGroup, member_id: str, out: Outcome, now_ms: int) -> None:
        out.cancel(SessionEnds(group.id, member_id))
        out.write(ShareCurrent(group.id, member_id, None))
        out.write(ShareTarget(group.id, member_id, None))
        out.write(ShareMember(group.id, member_id, None))
        self._look_around(group, {}, out, now_ms, without=member_id)

    def _renew_session(self, group_id: str, member_id: str, out: Outcome) -> None:
        timeout_ms = self.context.settings_of(group_id).share_session_timeout_ms
        out.set_timer(SessionEnds(group_id, member_id), timeout_ms)

    # --- who reads what ------------------------------------------------------------------------

    def _look_around(
        self,
        group: ShareGroup,
        changed: dict[str, Introduction],
        out: Outcome,
        now_ms: int,
        *,
        without: str | None = None,
    ) -> tuple[dict[str, Partitions], int]:
        """Share the partitions out anew if members or topics have changed; targets and epoch."""
        said = {member.id: member.said for member in group.members.values()} | changed
        said.pop(without or "", None)
        topics = topics_of(said.values(), self.context.topics)
        topics_hash = hash_of(topics)
        if not changed and without is None and topics_hash == group.topics_hash:
            return {member.id: member.target for member in group.members.values()}, group.epoch
        epoch = group.epoch + 1
        out.write(ShareGroupEpoch(group.id, epoch, topics_hash))
        self._get_to_know(group, topics, out)
        if not said:
            return {}, epoch
        ids = {topic.name: topic.id for topic in topics}
        targets = share_out(
            {
                member: {ids[name] for name in one.topics if name in ids}
                for member, one in said.items()
            },
            {topic.id: topic.partitions for topic in topics},
            {member.id: member.target for member in group.members.values()},
        )
        for member_id, partitions in targets.items():
            known = group.members.get(member_id)
            if known is None or known.target != partitions:
                out.write(ShareTarget(group.id, member_id, partitions))
        out.write(ShareTargetEpoch(group.id, epoch, now_ms))
        return targets, epoch

    def _get_to_know(self, group: ShareGroup, topics: list[TopicFacts], out: Outcome) -> None:
        """Note down new topics, and forget those that are gone: another of their name is another."""
        there = self.context.topics
        known = {
            topic.id: topic
            for topic in group.known_topics.values()
            if there.find_id(topic.id) is not None
        }
        known |= {topic.id: KnownTopic(topic.name, topic.id, topic.partitions) for topic in topics}
        if known != group.known_topics:
            out.write(ShareTopics(group.id, tuple(known.values())))

    # --- by hand -------------------------------------------------------------------------------

    def _forget_topics(self, command: ForgetShareTopics, ticket: Ticket, out: Outcome) -> None:
        group = self._empty(command.group)
        known = group.known_topics.values()
        left = tuple(one for one in known if one.id not in command.topic_ids)
        if len(left) < len(group.known_topics):
            out.write(ShareTopics(group.id, left))
        out.answer(ticket, Answered())

    def _know_topics(self, command: KnowShareTopics, ticket: Ticket, out: Outcome) -> None:
        if command.group in self.context.groups:
            group = self._empty(command.group)
        else:
            group = ShareGroup(command.group)
            out.write(ShareGroupEpoch(group.id, 0, 0))
        known = group.known_topics | {topic.id: topic for topic in command.topics}
        if known != group.known_topics:
            out.write(ShareTopics(group.id, tuple(known.values())))
        out.answer(ticket, Answered())

    def _empty(self, group_id: str) -> ShareGroup:
        group = self._existing(group_id)
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        return group


def _introduction(command: ShareHeartbeat, member: ShareGroupMember | None) -> Introduction:
    """What the member says now; what it leaves out is as it was."""
    before = member.said if member is not None else UNKNOWN
    return Introduction(
        before.rack if command.rack is None else command.rack,
        command.client_id,
        command.client_host,
        before.topics if command.topics is None else tuple(sorted(set(command.topics))),
    )
