"""The rebalance of a classic group, from one generation to the next.

    prepare → (all members join, or timeout) → complete_join → (the leader syncs the assignments) → stable

The first rebalance of an empty group waits for `group.initial.rebalance.delay.ms` (KIP-134), so that
starting many consumers gives one generation instead of one for each.
"""

from strom.coordination.groups.classic.group import ClassicGroup, ClassicMember
from strom.coordination.groups.classic.states import GroupState
from strom.coordination.groups.commands import (
    GroupOutcome,
    JoinResponse,
    JoinTimeout,
    SessionTimeout,
    SyncResponse,
    SyncTimeout,
)
from strom.model.errors import ErrorCode


class Rebalance:
    """The steps of a rebalance, for one group during one command."""

    def __init__(
        self, group: ClassicGroup, out: GroupOutcome, now_ms: int, initial_delay_ms: int
    ) -> None:
        self.group = group
        self.out = out
        self.now_ms = now_ms
        self._initial_delay_ms = initial_delay_ms

    def prepare_or_continue(self) -> None:
        """A member has joined, changed or left: begin a rebalance, or continue the current one."""
        if self.group.state is GroupState.PREPARING:
            self.complete_join_if_possible()
        else:
            self.prepare()

    def prepare(self) -> None:
        """Begin a rebalance: all members must rejoin."""
        group, out = self.group, self.out
        if group.state is GroupState.COMPLETING:
            self._reject_syncs()
        out.cancel(SyncTimeout(group.id))
        group.pending_sync.clear()
        group.is_first_rebalance = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING, self.now_ms)
        if group.is_first_rebalance:
            group.has_grown = False
            group.wait_left_ms = max(group.rebalance_timeout_ms - self._initial_delay_ms, 0)
            out.set_timer(JoinTimeout(group.id), self._initial_delay_ms)
        else:
            out.set_timer(JoinTimeout(group.id), group.rebalance_timeout_ms)
            self.complete_join_if_possible()

    def complete_join_if_possible(self) -> None:
        """Complete the joins if all members have joined; the first rebalance waits for its delay."""
        if self.group.have_all_joined and not self.group.is_first_rebalance:
            self.complete_join()

    def on_join_timeout(self) -> None:
        """Extend the initial delay if members joined meanwhile, else complete the joins."""
        group = self.group
        if group.state is not GroupState.PREPARING:
            return
        if group.is_first_rebalance and group.has_grown and group.wait_left_ms:
            delay = min(self._initial_delay_ms, group.wait_left_ms)
            group.has_grown = False
            group.wait_left_ms -= delay
            self.out.set_timer(JoinTimeout(group.id), delay)
        else:
            self.complete_join()

    def complete_join(self) -> None:
        """Begin the next generation with the members that have joined."""
        group, out = self.group, self.out
        for member in list(group.members.values()):
            # A static member may be restarting: only its session timeout removes it (KIP-345).
            if member.awaiting_join is None and member.instance is None:
                self.remove(member)
        present = group.waiting_to_join
        if group.members and not present:
            out.set_timer(JoinTimeout(group.id), group.rebalance_timeout_ms)
            return
        out.cancel(JoinTimeout(group.id))
        group.is_first_rebalance = False
        group.generation += 1
        if not present:
            self._become_empty()
            return
        if group.leader not in {member.id for member in present}:
            group.leader = present[0].id
        group.protocol = group.choose_protocol()
        group.transition_to(GroupState.COMPLETING, self.now_ms)
        group.pending_sync = set(group.members)
        out.set_timer(SyncTimeout(group.id), group.rebalance_timeout_ms)
        for member in group.members.values():
            member.is_new = False
            self.renew_session(member)
            self.respond_to_join(member, self.joined(member))

    def _become_empty(self) -> None:
        group = self.group
        group.protocol = group.leader = None
        group.transition_to(GroupState.EMPTY, self.now_ms)
        self.out.write(group.as_record({}, self.now_ms))

    def on_sync_timeout(self) -> None:
        """Remove the members that have not synced."""
        group = self.group
        missing = [group.members[lost] for lost in group.pending_sync if lost in group.members]
        if not missing or not group.is_in(GroupState.COMPLETING, GroupState.STABLE):
            return
        for member in missing:
            self.remove(member)
        self.prepare()

    def remove(self, member: ClassicMember) -> None:
        """Remove a member, with UNKNOWN_MEMBER_ID for its waiting requests."""
        self.group.remove(member.id)
        self.out.cancel(SessionTimeout(self.group.id, member.id))
        self.respond_to_join(
            member, JoinResponse(code=ErrorCode.UNKNOWN_MEMBER_ID, member=member.id)
        )
        self.respond_to_sync(member, SyncResponse(code=ErrorCode.UNKNOWN_MEMBER_ID))

    def joined(self, member: ClassicMember) -> JoinResponse:
        """The response to a member's join in the current generation."""
        group = self.group
        return JoinResponse(
            member=member.id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=group.joined_members() if member.id == group.leader else (),
        )

    def respond_to_join(self, member: ClassicMember, response: JoinResponse) -> None:
        """Respond to a member's join, if one waits."""
        if member.awaiting_join is not None:
            self.out.respond(member.awaiting_join, response)
            member.awaiting_join = None

    def respond_to_sync(self, member: ClassicMember, response: SyncResponse) -> None:
        """Respond to a member's sync, if one waits."""
        if member.awaiting_sync is not None:
            self.out.respond(member.awaiting_sync, response)
            member.awaiting_sync = None

    def renew_session(self, member: ClassicMember) -> None:
        self.out.set_timer(SessionTimeout(self.group.id, member.id), member.session_timeout_ms)

    def _reject_syncs(self) -> None:
        for member in self.group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                self.renew_session(member)
            self.respond_to_sync(member, SyncResponse(code=ErrorCode.REBALANCE_IN_PROGRESS))
