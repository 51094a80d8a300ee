"""Members join, ask for their shares, stay alive and leave."""

from strom.coordination.groups.classic.group import ClassicGroup, Member
from strom.coordination.groups.classic.rebalance import Rebalance
from strom.coordination.groups.classic.states import GroupState
from strom.coordination.groups.commands import NEW_MEMBER, Heartbeat, Join, Leave, Leaver, Sync
from strom.coordination.groups.outcome import Joined, Left, SessionEnds, Synced, SyncEnds, Ticket
from strom.model.errors import ApiError, ErrorCode

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""How long a first join may wait. Its member cannot send heartbeats, and a client that has given up
and asked again leaves a ghost behind that nobody would ever miss."""


def join(step: Rebalance, command: Join, ticket: Ticket, max_size: int) -> None:
    """Take in a member, or let one stay; answered when everyone has joined."""
    group = step.group
    if not _has_room(group, command.member, max_size):
        group.remove(command.member)
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not group.fits(command.protocol_type, command.protocols):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if command.member != NEW_MEMBER:
        _join_known(step, command, ticket)
    elif command.instance is not None:
        _join_static(step, command, ticket)
    elif command.needs_known_id:
        member_id = _new_id(command)
        group.pending.add(member_id)
        step.out.set_timer(SessionEnds(group.id, member_id), command.session_timeout_ms)
        step.out.answer(ticket, Joined(code=ErrorCode.MEMBER_ID_REQUIRED, member=member_id))
    else:
        _take_in(step, command, _new_id(command), ticket)


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    if group.state is GroupState.PREPARING:
        known = group.members.get(member_id)
        has_place = known is not None and known.awaiting_join is not None
        return has_place or len(group.waiting_to_join) < max_size
    if group.state is GroupState.EMPTY:
        return True
    return member_id in group.members or len(group.members) < max_size


def _new_id(command: Join) -> str:
    return f"{command.instance or command.client_id}-{command.fresh}"


def _take_in(step: Rebalance, command: Join, member_id: str, ticket: Ticket) -> None:
    group = step.group
    member = Member(
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
    step.out.set_timer(SessionEnds(group.id, member_id), NEW_MEMBER_TIMEOUT_MS)
    step.prepare_or_go_on()


def _join_known(step: Rebalance, command: Join, ticket: Ticket) -> None:
    group = step.group
    if command.member in group.pending and command.instance is None:
        _take_in(step, command, command.member, ticket)
        return
    member = group.member(command.member, command.instance)
    has_changed = member.protocols != command.protocols
    if group.state is GroupState.EMPTY:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    is_retry = group.state is GroupState.COMPLETING and not has_changed
    # The leader of a stable group joins again to have everything shared out anew.
    is_idle = group.state is GroupState.STABLE and not has_changed and member.id != group.leader
    if is_retry or is_idle:
        step.out.answer(ticket, step.joined(member))
        return
    _update(step, member, command, ticket)
    step.prepare_or_go_on()


def _update(step: Rebalance, member: Member, command: Join, ticket: Ticket) -> None:
    step.answer_join(member, Joined(code=ErrorCode.REBALANCE_IN_PROGRESS, member=member.id))
    member.say(command.protocols)
    member.rebalance_timeout_ms = command.rebalance_timeout_ms
    member.session_timeout_ms = command.session_timeout_ms
    member.client_id = command.client_id
    member.client_host = command.client_host
    member.awaiting_join = ticket


def _join_static(step: Rebalance, command: Join, ticket: Ticket) -> None:
    """A static member comes, or comes back with no memory of its id: then it keeps its share."""
    group = step.group
    member = group.static_member(command.instance or "")
    if member is None:
        _take_in(step, command, _new_id(command), ticket)
        return
    fenced = ErrorCode.FENCED_INSTANCE_ID
    step.answer_join(member, Joined(code=fenced, member=member.id))
    step.answer_sync(member, Synced(code=fenced))
    step.out.cancel(SessionEnds(group.id, member.id))
    old_leader = group.leader or ""
    group.rename(member, _new_id(command))
    _update(step, member, command, ticket)
    step.renew_session(member)
    if group.state is GroupState.STABLE and group.choose_protocol() == group.protocol:
        member.awaiting_join = None
        _keep_share(step, member, command, old_leader, ticket)
    else:
        step.prepare_or_go_on()


def _keep_share(
    step: Rebalance, member: Member, command: Join, old_leader: str, ticket: Ticket
) -> None:
    group = step.group
    assignments = {one.id: one.assignment for one in group.members.values()}
    step.out.write(group.as_record(assignments, group.since_ms))
    leads = member.id == group.leader and command.can_skip_assignment
    step.out.answer(
        ticket,
        Joined(
            member=member.id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            # A client that cannot skip the sharing out must not take itself for the leader.
            leader=(group.leader or "") if command.can_skip_assignment else old_leader,
            skip_assignment=leads,
            members=group.joined_members() if leads else (),
        ),
    )


def sync(step: Rebalance, command: Sync, ticket: Ticket) -> None:
    """Give a member its share; while the leader's word is missing, it waits."""
    group = step.group
    member = _current_member(group, command)
    _check_protocol(group, command)
    if group.state is GroupState.PREPARING:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.yet_to_sync.discard(member.id)
    if not group.yet_to_sync:
        step.out.cancel(SyncEnds(group.id))
    if group.state is GroupState.STABLE:
        step.renew_session(member)
        step.out.answer(ticket, _share(group, member.assignment))
        return
    step.answer_sync(member, Synced(code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = ticket
    if member.id == group.leader:
        _share_out(step, dict(command.assignments))


def _share_out(step: Rebalance, assignments: dict[str, bytes]) -> None:
    """Write the shares down; replaying them makes the group stable."""
    group = step.group
    step.out.write(group.as_record(assignments, step.now_ms))
    for member in group.members.values():
        if member.awaiting_sync is not None:
            step.renew_session(member)
        step.answer_sync(member, _share(group, assignments.get(member.id, b"")))


def _share(group: ClassicGroup, assignment: bytes) -> Synced:
    return Synced(protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment)


def _check_protocol(group: ClassicGroup, command: Sync) -> None:
    type_differs = command.protocol_type not in (None, group.protocol_type)
    if type_differs or command.protocol not in (None, group.protocol):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _current_member(group: ClassicGroup, command: Sync | Heartbeat) -> Member:
    member = group.member(command.member, command.instance)
    if command.generation != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return member


def heartbeat(step: Rebalance, command: Heartbeat) -> ErrorCode:
    """Renew a member's session; tell it when it has to join again."""
    member = _current_member(step.group, command)
    step.renew_session(member)
    if step.group.state is GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(step: Rebalance, command: Leave) -> Left:
    """Take members out, each on its own; the rest shares out anew."""
    codes = []
    before = len(step.group.members)
    for leaver in command.leavers:
        try:
            _take_out(step, leaver)
            codes.append(ErrorCode.NONE)
        except ApiError as error:
            codes.append(error.code)
    if step.group.state is GroupState.PREPARING:
        step.complete_join_if_possible()
    elif len(step.group.members) < before:
        step.prepare()
    return Left(members=tuple(codes))


def _take_out(step: Rebalance, leaver: Leaver) -> None:
    group = step.group
    if leaver.member == NEW_MEMBER:
        # An operator may take out a static member without knowing its id.
        found = group.static_member(leaver.instance) if leaver.instance is not None else None
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        step.remove(found)
    elif leaver.member in group.pending:
        group.pending.remove(leaver.member)
        step.out.cancel(SessionEnds(group.id, leaver.member))
    else:
        step.remove(group.member(leaver.member, leaver.instance))


def session_ended(step: Rebalance, member_id: str) -> None:
    """A member was silent for too long, or an id that was given out was never used."""
    group = step.group
    if member_id in group.pending:
        group.pending.remove(member_id)
        if group.state is GroupState.PREPARING:
            step.complete_join_if_possible()
        return
    member = group.members.get(member_id)
    if member is None:
        return
    waits = member.awaiting_join is not None or member.awaiting_sync is not None
    if waits and not member.is_new:
        return  # it is the group that keeps it waiting; its session goes on with the answer
    step.remove(member)
    step.prepare_or_go_on()
