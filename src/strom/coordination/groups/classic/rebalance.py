"""How a group gets from one generation to the next.

    prepare → (everyone joins, or time is up) → complete_join → (the leader brings the shares) → stable

The first rebalance of an empty group waits a while for more members, so that starting a whole set of
consumers gives one generation and not one for each.
"""

from strom.coordination.groups.classic.group import ClassicGroup, Member
from strom.coordination.groups.classic.states import GroupState
from strom.coordination.groups.outcome import (
    Joined,
    JoinEnds,
    Outcome,
    SessionEnds,
    Synced,
    SyncEnds,
)
from strom.model.errors import ErrorCode


class Rebalance:
    """The steps of a rebalance, for one group during one command."""

    def __init__(
        self, group: ClassicGroup, out: Outcome, now_ms: int, initial_delay_ms: int
    ) -> None:
        self.group = group
        self.out = out
        self.now_ms = now_ms
        self._initial_delay_ms = initial_delay_ms

    def prepare_or_go_on(self) -> None:
        """Someone has come, changed or left: begin a rebalance, or see whether this one can go on."""
        if self.group.state is GroupState.PREPARING:
            self.complete_join_if_possible()
        else:
            self.prepare()

    def prepare(self) -> None:
        """Have everyone join again."""
        group, out = self.group, self.out
        if group.state is GroupState.COMPLETING:
            self._refuse_syncs()
        out.cancel(SyncEnds(group.id))
        group.yet_to_sync.clear()
        group.is_first_rebalance = group.state is GroupState.EMPTY
        group.move(GroupState.PREPARING, self.now_ms)
        if group.is_first_rebalance:
            group.has_grown = False
            group.wait_left_ms = max(group.rebalance_timeout_ms - self._initial_delay_ms, 0)
            out.set_timer(JoinEnds(group.id), self._initial_delay_ms)
        else:
            out.set_timer(JoinEnds(group.id), group.rebalance_timeout_ms)
            self.complete_join_if_possible()

    def complete_join_if_possible(self) -> None:
        """Answer the joins if nobody is missing; a first rebalance waits for its time instead."""
        if self.group.everyone_has_joined and not self.group.is_first_rebalance:
            self.complete_join()

    def join_time_is_up(self) -> None:
        """Wait once more if more members came meanwhile, else answer the joins."""
        group = self.group
        if group.state is not GroupState.PREPARING:
            return
        if group.is_first_rebalance and group.has_grown and group.wait_left_ms:
            delay = min(self._initial_delay_ms, group.wait_left_ms)
            group.has_grown = False
            group.wait_left_ms -= delay
            self.out.set_timer(JoinEnds(group.id), delay)
        else:
            self.complete_join()

    def complete_join(self) -> None:
        """Begin the next generation with whoever has joined."""
        group, out = self.group, self.out
        for member in list(group.members.values()):
            # A static member may be restarting: only its session's end takes it out.
            if member.awaiting_join is None and member.instance is None:
                self.remove(member)
        present = group.waiting_to_join
        if group.members and not present:
            out.set_timer(JoinEnds(group.id), group.rebalance_timeout_ms)
            return
        out.cancel(JoinEnds(group.id))
        group.is_first_rebalance = False
        group.generation += 1
        if not present:
            self._become_empty()
            return
        if group.leader not in {member.id for member in present}:
            group.leader = present[0].id
        group.protocol = group.choose_protocol()
        group.move(GroupState.COMPLETING, self.now_ms)
        group.yet_to_sync = set(group.members)
        out.set_timer(SyncEnds(group.id), group.rebalance_timeout_ms)
        for member in group.members.values():
            member.is_new = False
            self.renew_session(member)
            self.answer_join(member, self.joined(member))

    def _become_empty(self) -> None:
        group = self.group
        group.protocol = group.leader = None
        group.move(GroupState.EMPTY, self.now_ms)
        self.out.write(group.as_record({}, self.now_ms))

    def sync_time_is_up(self) -> None:
        """Whoever has not asked for its share is taken for lost."""
        group = self.group
        missing = [group.members[lost] for lost in group.yet_to_sync if lost in group.members]
        if not missing or not group.is_in(GroupState.COMPLETING, GroupState.STABLE):
            return
        for member in missing:
            self.remove(member)
        self.prepare()

    def remove(self, member: Member) -> None:
        """Take a member out; whatever it waits for is answered."""
        self.group.remove(member.id)
        self.out.cancel(SessionEnds(self.group.id, member.id))
        self.answer_join(member, Joined(code=ErrorCode.UNKNOWN_MEMBER_ID, member=member.id))
        self.answer_sync(member, Synced(code=ErrorCode.UNKNOWN_MEMBER_ID))

    def joined(self, member: Member) -> Joined:
        """What a member is told of the present generation."""
        group = self.group
        return Joined(
            member=member.id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=group.joined_members() if member.id == group.leader else (),
        )

    def answer_join(self, member: Member, answer: Joined) -> None:
        """Answer a member's join, if it waits for one."""
        if member.awaiting_join is not None:
            self.out.answer(member.awaiting_join, answer)
            member.awaiting_join = None

    def answer_sync(self, member: Member, answer: Synced) -> None:
        """Answer a member's sync, if it waits for one."""
        if member.awaiting_sync is not None:
            self.out.answer(member.awaiting_sync, answer)
            member.awaiting_sync = None

    def renew_session(self, member: Member) -> None:
        """The member is alive: its session begins anew."""
        self.out.set_timer(SessionEnds(self.group.id, member.id), member.session_timeout_ms)

    def _refuse_syncs(self) -> None:
        for member in self.group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                self.renew_session(member)
            self.answer_sync(member, Synced(code=ErrorCode.REBALANCE_IN_PROGRESS))
