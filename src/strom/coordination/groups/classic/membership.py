"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic groups, and the rebalances they cause.

A rebalance goes from one generation to the next:

    prepare → (all members join, or timeout) → complete_join → (the leader syncs the assignments) → stable

The first rebalance of an empty group waits for `group.initial.rebalance.delay.ms` (KIP-134), so that
starting many consumers gives one generation instead of one for each.
"""

from strom.coordination.groups.classic.group import ClassicGroup, ClassicMember
from strom.coordination.groups.classic.states import GroupState
from strom.coordination.groups.commands import (
    NEW_MEMBER,
    GroupOutcome,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    JoinTimeout,
    LeaveGroup,
    LeaveResponse,
    LeavingMember,
    SessionTimeout,
    SyncGroup,
    SyncResponse,
    SyncTimeout,
    Ticket,
)
from strom.model.errors import ApiError, ErrorCode


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


NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""How long a first join may wait. Its member cannot send heartbeats yet, and a client that retried
under another id leaves a zombie member that no other timeout would remove."""


def join(rebalance: Rebalance, command: JoinGroup, ticket: Ticket, max_size: int) -> None:
    """Add or keep a member; the response is sent when all members have joined."""
    group = rebalance.group
    if not _has_room(group, command.member, max_size):
        group.remove(command.member)
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not group.is_compatible(command.protocol_type, command.protocols):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if command.member != NEW_MEMBER:
        _join_known(rebalance, command, ticket)
    elif command.instance is not None:
        _join_static(rebalance, command, ticket)
    elif command.needs_known_id:
        member_id = _new_id(command)
        group.pending.add(member_id)
        rebalance.out.set_timer(SessionTimeout(group.id, member_id), command.session_timeout_ms)
        rebalance.out.respond(
            ticket, JoinResponse(code=ErrorCode.MEMBER_ID_REQUIRED, member=member_id)
        )
    else:
        _add_member(rebalance, command, _new_id(command), ticket)


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    if group.state is GroupState.PREPARING:
        known = group.members.get(member_id)
        is_waiting = known is not None and known.awaiting_join is not None
        return is_waiting or len(group.waiting_to_join) < max_size
    if group.state is GroupState.EMPTY:
        return True
    return member_id in group.members or len(group.members) < max_size


def _new_id(command: JoinGroup) -> str:
    return f"{command.instance or command.client_id}-{command.fresh}"


def _add_member(rebalance: Rebalance, command: JoinGroup, member_id: str, ticket: Ticket) -> None:
    group = rebalance.group
    member = ClassicMember(
        member_id,
        command.instance,
        command.client_id,
        command.client_host,
        command.rebalance_timeout_ms,
        command.session_timeout_ms,
        command.protocols,
        is_new=True,
        awaiting_join=ticket,
    )
    group.has_grown = True
    group.add(member, command.protocol_type)
    rebalance.out.set_timer(SessionTimeout(group.id, member_id), NEW_MEMBER_TIMEOUT_MS)
    rebalance.prepare_or_continue()


def _join_known(rebalance: Rebalance, command: JoinGroup, ticket: Ticket) -> None:
    group = rebalance.group
    if command.member in group.pending and command.instance is None:
        _add_member(rebalance, command, command.member, ticket)
        return
    member = group.member(command.member, command.instance)
    has_changed = member.protocols != command.protocols
    if group.state is GroupState.EMPTY:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    is_retry = group.state is GroupState.COMPLETING and not has_changed
    # The leader of a stable group rejoins to trigger a new assignment.
    is_idle = group.state is GroupState.STABLE and not has_changed and member.id != group.leader
    if is_retry or is_idle:
        rebalance.out.respond(ticket, rebalance.joined(member))
        return
    _update(rebalance, member, command, ticket)
    rebalance.prepare_or_continue()


def _update(
    rebalance: Rebalance, member: ClassicMember, command: JoinGroup, ticket: Ticket
) -> None:
    rebalance.respond_to_join(
        member, JoinResponse(code=ErrorCode.REBALANCE_IN_PROGRESS, member=member.id)
    )
    member.update_protocols(command.protocols)
    member.rebalance_timeout_ms = command.rebalance_timeout_ms
    member.session_timeout_ms = command.session_timeout_ms
    member.client_id = command.client_id
    member.client_host = command.client_host
    member.awaiting_join = ticket


def _join_static(rebalance: Rebalance, command: JoinGroup, ticket: Ticket) -> None:
    """A static member joins, or returns without its id; then it keeps its assignment (KIP-345)."""
    group = rebalance.group
    member = group.static_member(command.instance or "")
    if member is None:
        _add_member(rebalance, command, _new_id(command), ticket)
        return
    fenced = ErrorCode.FENCED_INSTANCE_ID
    rebalance.respond_to_join(member, JoinResponse(code=fenced, member=member.id))
    rebalance.respond_to_sync(member, SyncResponse(code=fenced))
    rebalance.out.cancel(SessionTimeout(group.id, member.id))
    old_leader = group.leader or ""
    group.rename(member, _new_id(command))
    _update(rebalance, member, command, ticket)
    rebalance.renew_session(member)
    if group.state is GroupState.STABLE and group.choose_protocol() == group.protocol:
        member.awaiting_join = None
        _keep_assignment(rebalance, member, command, old_leader, ticket)
    else:
        rebalance.prepare_or_continue()


def _keep_assignment(
    rebalance: Rebalance, member: ClassicMember, command: JoinGroup, old_leader: str, ticket: Ticket
) -> None:
    group = rebalance.group
    assignments = {one.id: one.assignment for one in group.members.values()}
    rebalance.out.write(group.as_record(assignments, group.since_ms))
    leads = member.id == group.leader and command.can_skip_assignment
    rebalance.out.respond(
        ticket,
        JoinResponse(
            member=member.id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            # A client without `skip_assignment` must not become the leader: it would assign again.
            leader=(group.leader or "") if command.can_skip_assignment else old_leader,
            skip_assignment=leads,
            members=group.joined_members() if leads else (),
        ),
    )


def sync(rebalance: Rebalance, command: SyncGroup, ticket: Ticket) -> None:
    """Respond with the assignment, or wait until the leader has submitted it."""
    group = rebalance.group
    member = _current_member(group, command)
    _check_protocol(group, command)
    if group.state is GroupState.PREPARING:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.discard(member.id)
    if not group.pending_sync:
        rebalance.out.cancel(SyncTimeout(group.id))
    if group.state is GroupState.STABLE:
        rebalance.renew_session(member)
        rebalance.out.respond(ticket, _sync_result(group, member.assignment))
        return
    rebalance.respond_to_sync(member, SyncResponse(code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = ticket
    if member.id == group.leader:
        _assign(rebalance, dict(command.assignments))


def _assign(rebalance: Rebalance, assignments: dict[str, bytes]) -> None:
    """Write the assignments; replaying them makes the group stable."""
    group = rebalance.group
    rebalance.out.write(group.as_record(assignments, rebalance.now_ms))
    for member in group.members.values():
        if member.awaiting_sync is not None:
            rebalance.renew_session(member)
        rebalance.respond_to_sync(member, _sync_result(group, assignments.get(member.id, b"")))


def _sync_result(group: ClassicGroup, assignment: bytes) -> SyncResponse:
    return SyncResponse(
        protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment
    )


def _check_protocol(group: ClassicGroup, command: SyncGroup) -> None:
    type_differs = command.protocol_type not in (None, group.protocol_type)
    if type_differs or command.protocol not in (None, group.protocol):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _current_member(group: ClassicGroup, command: SyncGroup | Heartbeat) -> ClassicMember:
    member = group.member(command.member, command.instance)
    if command.generation != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return member


def heartbeat(rebalance: Rebalance, command: Heartbeat) -> ErrorCode:
    """Renew a member's session; REBALANCE_IN_PROGRESS if it must rejoin."""
    member = _current_member(rebalance.group, command)
    rebalance.renew_session(member)
    if rebalance.group.state is GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(rebalance: Rebalance, command: LeaveGroup) -> LeaveResponse:
    """Remove members, each with its own error code, and rebalance the rest."""
    codes = []
    before = len(rebalance.group.members)
    for leaver in command.leavers:
        try:
            _remove_leaving(rebalance, leaver)
            codes.append(ErrorCode.NONE)
        except ApiError as error:
            codes.append(error.code)
    if rebalance.group.state is GroupState.PREPARING:
        rebalance.complete_join_if_possible()
    elif len(rebalance.group.members) < before:
        rebalance.prepare()
    return LeaveResponse(members=tuple(codes))


def _remove_leaving(rebalance: Rebalance, leaver: LeavingMember) -> None:
    group = rebalance.group
    if leaver.member == NEW_MEMBER:
        # An administrator may remove a static member without its id.
        found = group.static_member(leaver.instance) if leaver.instance is not None else None
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        rebalance.remove(found)
    elif leaver.member in group.pending:
        group.pending.remove(leaver.member)
        rebalance.out.cancel(SessionTimeout(group.id, leaver.member))
    else:
        rebalance.remove(group.member(leaver.member, leaver.instance))


def on_session_timeout(rebalance: Rebalance, member_id: str) -> None:
    """A member has sent no heartbeat in time, or never joined with its assigned id."""
    group = rebalance.group
    if member_id in group.pending:
        group.pending.remove(member_id)
        if group.state is GroupState.PREPARING:
            rebalance.complete_join_if_possible()
        return
    member = group.members.get(member_id)
    if member is None:
        return
    waits = member.awaiting_join is not None or member.awaiting_sync is not None
    if waits and not member.is_new:
        return  # it waits for the group; its session restarts with the response
    rebalance.remove(member)
    rebalance.prepare_or_continue()
