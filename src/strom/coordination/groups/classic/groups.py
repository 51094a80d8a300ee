"""The rules of classic groups: clients elect a leader among them, and it shares out the partitions."""

from typing import ClassVar

from strom.coordination.groups.classic import membership
from strom.coordination.groups.classic.group import ClassicGroup
from strom.coordination.groups.classic.rebalance import Rebalance
from strom.coordination.groups.classic.states import GroupState
from strom.coordination.groups.commands import (
    NEW_MEMBER,
    Command,
    Commit,
    Heartbeat,
    Join,
    Leave,
    Sync,
)
from strom.coordination.groups.consumer.commands import Downgraded
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.membership import tombstones
from strom.coordination.groups.consumer.protocol import ConsumerGroups
from strom.coordination.groups.group import GroupProtocol, GroupType
from strom.coordination.groups.outcome import (
    Answer,
    Answered,
    Joined,
    JoinEnds,
    Left,
    Outcome,
    SessionEnds,
    Synced,
    SyncEnds,
    Ticket,
    Timer,
)
from strom.coordination.groups.records import GroupGone, GroupMetadata
from strom.model.errors import ApiError, ErrorCode

ClassicCommand = Join | Sync | Heartbeat | Leave


class ClassicGroups(GroupProtocol[ClassicGroup]):
    """Joins, syncs, heartbeats and leaves."""

    kind = GroupType.CLASSIC
    commands: ClassVar[tuple[type[Command], ...]] = (Join, Sync, Heartbeat, Leave)
    records = (GroupMetadata, GroupGone)

    def handle(self, command: ClassicCommand, ticket: Ticket, out: Outcome, now_ms: int) -> None:
        """Begin to do what is asked; joins and syncs are answered when the others have come too."""
        group = self.context.groups.get(command.group)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            answer = ConsumerGroups(self.context).serve_classic(group, command, out, now_ms)
            out.answer(ticket, answer)
            return
        match command:
            case Join():
                self._join(command, ticket, out, now_ms)
            case Sync():
                membership.sync(self._step(command.group, out, now_ms), command, ticket)
            case Heartbeat():
                code = membership.heartbeat(self._step(command.group, out, now_ms), command)
                out.answer(ticket, Answered(code=code))
            case Leave():
                out.answer(ticket, self._leave(command, out, now_ms))

    def refusal(self, command: ClassicCommand, code: ErrorCode) -> Answer:
        """An answer in the form that the command expects."""
        match command:
            case Join():
                return Joined(code=code, member=command.member)
            case Sync():
                return Synced(code=code)
            case Heartbeat():
                return Answered(code=code)
            case Leave():
                return Left(code=code)

    def timer_fired(self, group: ClassicGroup, timer: Timer, out: Outcome, now_ms: int) -> None:
        """Put out whoever has let its time pass."""
        step = self._step_of(group, out, now_ms)
        match timer:
            case JoinEnds():
                step.join_time_is_up()
            case SyncEnds():
                step.sync_time_is_up()
            case SessionEnds():
                membership.session_ended(step, timer.member)
            case Downgraded() if group.state is GroupState.STABLE:
                step.prepare()

    def replay(self, record: GroupMetadata | GroupGone) -> None:
        """Take on a generation's shares, or the end of the group."""
        groups = self.context.groups
        match record:
            case GroupMetadata():
                group = self.find(record.group) or ClassicGroup(record.group)
                group.restore(record)
                groups[record.group] = group
            case GroupGone():
                gone = self.find(record.group)
                if gone is not None:
                    gone.state = GroupState.DEAD
                    del groups[record.group]

    def resume(self, group: ClassicGroup, out: Outcome) -> None:
        """Everyone gets a session's time."""
        for member in group.members.values():
            out.set_timer(SessionEnds(group.id, member.id), member.session_timeout_ms)

    def check_may_commit(
        self, group: ClassicGroup, command: Commit, out: Outcome, now_ms: int
    ) -> None:
        """Members of the present generation may, and anyone while there are none."""
        if command.generation < 0 and group.is_empty:
            return  # a consumer that shares with nobody, or an operator
        names_nobody = command.member == NEW_MEMBER and command.instance is None
        if command.generation < 0 and names_nobody:
            if command.producer is not None:
                return  # as clients of former days commit in transactions
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.member(command.member, command.instance)
        if command.generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if command.producer is not None:
            return
        if group.state is GroupState.COMPLETING:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._step_of(group, out, now_ms).renew_session(member)

    def forget(self, group: ClassicGroup, out: Outcome) -> None:
        """The record that ends a group; ids that were given out for it are no longer good."""
        for member_id in group.pending:
            out.cancel(SessionEnds(group.id, member_id))
        out.write(GroupGone(group.id))

    # --- inside --------------------------------------------------------------------------------

    def _step(self, name: str, out: Outcome, now_ms: int) -> Rebalance:
        group = self.find(name)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._step_of(group, out, now_ms)

    def _step_of(self, group: ClassicGroup, out: Outcome, now_ms: int) -> Rebalance:
        delay_ms = self.context.settings.group_initial_rebalance_delay_ms
        return Rebalance(group, out, now_ms, delay_ms)

    def _join(self, command: Join, ticket: Ticket, out: Outcome, now_ms: int) -> None:
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
            step = self._step(command.group, out, now_ms)
            membership.join(step, command, ticket, settings.group_max_size)
        except ApiError:
            if is_created:
                del groups[command.group]
            if former is not None:
                groups[command.group] = former
            raise
        if isinstance(former, ConsumerGroup):
            for record in tombstones(former):  # it was empty, and may be of any kind again
                out.write(record)

    def _leave(self, command: Leave, out: Outcome, now_ms: int) -> Left:
        if self.find(command.group) is None:
            return Left(members=(ErrorCode.UNKNOWN_MEMBER_ID,) * len(command.leavers))
        return membership.leave(self._step(command.group, out, now_ms), command)
