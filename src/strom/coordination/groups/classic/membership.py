"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic groups."""

from strom.coordination.groups.classic.group import ClassicGroup, ClassicMember
from strom.coordination.groups.classic.rebalance import Rebalance
from strom.coordination.groups.classic.states import GroupState
from strom.coordination.groups.commands import (
    NEW_MEMBER,
    Heartbeat,
    JoinGroup,
    JoinResponse,
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
