"""The classic group protocol: the coordinator elects a leader, which assigns the partitions."""

from typing import ClassVar

from strom.coordination.groups.classic import membership
from strom.coordination.groups.classic.group import ClassicGroup
from strom.coordination.groups.classic.membership import Rebalance
from strom.coordination.groups.classic.states import GroupState
from strom.coordination.groups.commands import (
    NEW_MEMBER,
    CommitOffsets,
    GroupCommand,
    GroupOutcome,
    GroupResponse,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    JoinTimeout,
    LeaveGroup,
    LeaveResponse,
    SessionTimeout,
    StatusResponse,
    SyncGroup,
    SyncResponse,
    SyncTimeout,
    Ticket,
    Timer,
)
from strom.coordination.groups.consumer.commands import Downgraded
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.membership import tombstones
from strom.coordination.groups.consumer.protocol import ConsumerGroupProtocol
from strom.coordination.groups.group import GroupProtocol, GroupType
from strom.coordination.groups.records import GroupDeleted, GroupMetadata
from strom.model.errors import ApiError, ErrorCode

ClassicCommand = JoinGroup | SyncGroup | Heartbeat | LeaveGroup


class ClassicGroupProtocol(GroupProtocol[ClassicGroup]):
    kind = GroupType.CLASSIC
    commands: ClassVar[tuple[type[GroupCommand], ...]] = (
        JoinGroup,
        SyncGroup,
        Heartbeat,
        LeaveGroup,
    )
    records = (GroupMetadata, GroupDeleted)

    def handle(
        self, command: ClassicCommand, ticket: Ticket, out: GroupOutcome, now_ms: int
    ) -> None:
        """Handle a command; responses to joins and syncs wait for the other members."""
        group = self.context.groups.get(command.group)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            response = ConsumerGroupProtocol(self.context).serve_classic(
                group, command, out, now_ms
            )
            out.respond(ticket, response)
            return
        match command:
            case JoinGroup():
                self._join(command, ticket, out, now_ms)
            case SyncGroup():
                membership.sync(self._rebalance(command.group, out, now_ms), command, ticket)
            case Heartbeat():
                code = membership.heartbeat(self._rebalance(command.group, out, now_ms), command)
                out.respond(ticket, StatusResponse(code=code))
            case LeaveGroup():
                out.respond(ticket, self._leave(command, out, now_ms))

    def error_response(self, command: ClassicCommand, code: ErrorCode) -> GroupResponse:
        match command:
            case JoinGroup():
                return JoinResponse(code=code, member=command.member)
            case SyncGroup():
                return SyncResponse(code=code)
            case Heartbeat():
                return StatusResponse(code=code)
            case LeaveGroup():
                return LeaveResponse(code=code)

    def on_timer(self, group: ClassicGroup, timer: Timer, out: GroupOutcome, now_ms: int) -> None:
        rebalance = self._rebalance_of(group, out, now_ms)
        match timer:
            case JoinTimeout():
                rebalance.on_join_timeout()
            case SyncTimeout():
                rebalance.on_sync_timeout()
            case SessionTimeout():
                membership.on_session_timeout(rebalance, timer.member)
            case Downgraded() if group.state is GroupState.STABLE:
                rebalance.prepare()

    def replay(self, record: GroupMetadata | GroupDeleted) -> None:
        groups = self.context.groups
        match record:
            case GroupMetadata():
                group = self.find(record.group) or ClassicGroup(record.group)
                group.restore(record)
                groups[record.group] = group
            case GroupDeleted():
                gone = self.find(record.group)
                if gone is not None:
                    gone.state = GroupState.DEAD
                    del groups[record.group]

    def resume(self, group: ClassicGroup, out: GroupOutcome) -> None:
        for member in group.members.values():
            out.set_timer(SessionTimeout(group.id, member.id), member.session_timeout_ms)

    def check_may_commit(
        self, group: ClassicGroup, command: CommitOffsets, out: GroupOutcome, now_ms: int
    ) -> None:
        """Members of the current generation may commit, and any client while the group is empty."""
        if command.generation < 0 and group.is_empty:
            return  # a consumer without group management, or an administrator
        has_no_member = command.member == NEW_MEMBER and command.instance is None
        if command.generation < 0 and has_no_member:
            if command.producer is not None:
                return  # TxnOffsetCommit before KIP-447 names no member
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.member(command.member, command.instance)
        if command.generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if command.producer is not None:
            return
        if group.state is GroupState.COMPLETING:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalance_of(group, out, now_ms).renew_session(member)

    def delete(self, group: ClassicGroup, out: GroupOutcome) -> None:
        for member_id in group.pending:
            out.cancel(SessionTimeout(group.id, member_id))
        out.write(GroupDeleted(group.id))

    # --- joining and leaving -------------------------------------------------------------------

    def _rebalance(self, name: str, out: GroupOutcome, now_ms: int) -> Rebalance:
        group = self.find(name)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._rebalance_of(group, out, now_ms)

    def _rebalance_of(self, group: ClassicGroup, out: GroupOutcome, now_ms: int) -> Rebalance:
        delay_ms = self.context.settings.group_initial_rebalance_delay_ms
        return Rebalance(group, out, now_ms, delay_ms)

    def _join(self, command: JoinGroup, ticket: Ticket, out: GroupOutcome, now_ms: int) -> None:
        settings, groups = self.context.settings, self.context.groups
        shortest = settings.group_min_session_timeout_ms
        if not shortest <= command.session_timeout_ms <= settings.group_max_session_timeout_ms:
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        former = groups.get(command.group)
        if former is not None and former.kind not in (GroupType.CLASSIC, GroupType.CONSUMER):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_created = not isinstance(former, ClassicGroup) and command.member == NEW_MEMBER
        if is_created:
            groups[command.group] = ClassicGroup(command.group)
        try:
            rebalance = self._rebalance(command.group, out, now_ms)
            membership.join(rebalance, command, ticket, settings.group_max_size)
        except ApiError:
            if is_created:
                del groups[command.group]
            if former is not None:
                groups[command.group] = former
            raise
        if isinstance(former, ConsumerGroup):
            for record in tombstones(former):  # it was empty, so it may change its type
                out.write(record)

    def _leave(self, command: LeaveGroup, out: GroupOutcome, now_ms: int) -> LeaveResponse:
        if self.find(command.group) is None:
            return LeaveResponse(members=(ErrorCode.UNKNOWN_MEMBER_ID,) * len(command.leavers))
        return membership.leave(self._rebalance(command.group, out, now_ms), command)
