"""Classic members in a consumer group, during an online migration (KIP-848).

They join, sync and send heartbeats as before, and get REBALANCE_IN_PROGRESS whenever there are partitions
to revoke or to assign. There is no leader: the coordinator assigns.
"""

from collections.abc import Iterable, Sequence

from strom.coordination.groups.commands import (
    NEW_MEMBER,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    LeavingMember,
    SyncGroup,
    SyncResponse,
)
from strom.coordination.groups.consumer.commands import ClassicJoinTimeout, ClassicSyncTimeout
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.membership import MembershipUpdate
from strom.coordination.groups.consumer.records import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    Partitions,
    Subscription,
    TopicIdPartition,
)
from strom.coordination.groups.topics_image import TopicsImage
from strom.model.errors import ApiError, ErrorCode, ProtocolError
from strom.wire.kafka.consumer_protocol import (
    ClassicAssignment,
    ClassicPartitions,
    ClassicSubscription,
    read_subscription,
    write_assignment,
)
from strom.wire.kafka.offsets_topic import version_of

CONSUMER_PROTOCOL = "consumer"


def join(step: MembershipUpdate, command: JoinGroup) -> JoinResponse:
    """Add a classic member, or reconcile it; the response does not wait for other members."""
    member_id = command.member or command.fresh
    step.check_room(member_id)
    _check_protocols(step.draft.group, command)
    if not command.member and command.instance is None and command.needs_known_id:
        return JoinResponse(code=ErrorCode.MEMBER_ID_REQUIRED, member=member_id)
    decoded = _subscription(command.protocols)
    if command.member and command.instance is not None:
        before = step.member(member_id, command.instance)
    else:
        before = step.joining(member_id, command.instance, is_classic=True)
    subscription = Subscription(
        instance=command.instance,
        rack=decoded.rack,
        client_id=command.client_id,
        client_host=command.client_host,
        topics=frozenset(decoded.topics),
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        classic=ClassicMetadata(
            session_timeout_ms=command.session_timeout_ms, protocols=command.protocols
        ),
    )
    owned = ids_of(decoded.owned_partitions, step.context.topics)
    after = step.follow(before, subscription, owned)
    group = step.draft.group
    group.awaited.discard(after.id)
    step.out.cancel(ClassicJoinTimeout(group.id, after.id))
    step.out.set_timer(ClassicSyncTimeout(group.id, after.id), command.rebalance_timeout_ms)
    step.renew_session(after)
    return JoinResponse(
        member=after.id,
        generation=after.current.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol=command.protocols[0][0],
    )


def sync(step: MembershipUpdate, command: SyncGroup) -> SyncResponse:
    member = _current_member(step, command)
    classic = member.subscription.classic
    protocol, metadata = classic.protocols[0] if classic is not None else ("", b"")
    type_differs = command.protocol_type not in (None, CONSUMER_PROTOCOL)
    if type_differs or command.protocol not in (None, protocol):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group = step.draft.group
    if member.current.epoch < group.epoch and member.current.state is not MemberState.UNREVOKED:
        _await_join(step, member)
        return SyncResponse(code=ErrorCode.REBALANCE_IN_PROGRESS)
    step.out.cancel(ClassicSyncTimeout(group.id, member.id))
    step.renew_session(member)
    assignment = as_classic(member.current.assigned, step.context.topics)
    return SyncResponse(
        protocol_type=command.protocol_type,
        protocol=command.protocol,
        assignment=write_assignment(assignment, version_of(metadata)),
    )


def heartbeat(step: MembershipUpdate, command: Heartbeat) -> ErrorCode:
    """Renew a member's session; REBALANCE_IN_PROGRESS if there are partitions to revoke or to get."""
    member = _current_member(step, command)
    step.renew_session(member)
    group, state = step.draft.group, member.current.state
    can_get_more = state is MemberState.UNRELEASED and not _waits_for_others(group, member)
    if member.current.epoch < group.epoch or state is MemberState.UNREVOKED or can_get_more:
        _await_join(step, member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(
    step: MembershipUpdate, command: LeaveGroup
) -> tuple[LeaveResponse, list[ConsumerMember]]:
    """The response, and the members to remove; the group has not changed yet."""
    codes: list[ErrorCode] = []
    leaving: list[ConsumerMember] = []
    for leaver in command.leavers:
        try:
            leaving.append(_leaving_member(step, leaver))
            codes.append(ErrorCode.NONE)
        except ApiError as error:
            codes.append(error.code)
    return LeaveResponse(members=tuple(codes)), leaving


def _leaving_member(step: MembershipUpdate, leaver: LeavingMember) -> ConsumerMember:
    owner = step.draft.group.static_member(leaver.instance) if leaver.instance else None
    if owner is not None and leaver.member == NEW_MEMBER:
        member = owner
    else:
        member = step.member(leaver.member, leaver.instance)
    if member.subscription.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _current_member(step: MembershipUpdate, command: SyncGroup | Heartbeat) -> ConsumerMember:
    member = step.member(command.member, command.instance)
    if member.subscription.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if command.generation != member.current.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return member


def _check_protocols(group: ConsumerGroup, command: JoinGroup) -> None:
    """A classic member without a common protocol would make a later downgrade impossible."""
    others = [
        one.subscription.classic
        for one in group.members.values()
        if one.subscription.classic is not None
    ]
    known = [{name for name, _ in one.protocols} for one in others]
    fits = any(all(name in names for names in known) for name, _ in command.protocols)
    if command.protocol_type != CONSUMER_PROTOCOL or not fits:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(protocols: Sequence[tuple[str, bytes]]) -> ClassicSubscription:
    try:
        return read_subscription(protocols[0][1])
    except ProtocolError:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None


def _await_join(step: MembershipUpdate, member: ConsumerMember) -> None:
    """Require the member to rejoin within its rebalance timeout."""
    group = step.draft.group
    if member.id not in group.awaited:
        group.awaited.add(member.id)
        timer = ClassicJoinTimeout(group.id, member.id)
        step.out.set_timer(timer, member.subscription.rebalance_timeout_ms)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    missing = group.target(member.id) - member.current.assigned.keys()
    return any(one in group.owners for one in missing)


def ids_of(topics: Iterable[ClassicPartitions], image: TopicsImage) -> Partitions:
    """Partitions by topic id, for those topics that exist."""
    return frozenset(
        TopicIdPartition(facts.id, index)
        for topic in topics
        if (facts := image.find(topic.topic)) is not None
        for index in topic.partitions
    )


def as_classic(partitions: Iterable[TopicIdPartition], image: TopicsImage) -> ClassicAssignment:
    """An assignment in the form of classic consumers."""
    by_name: dict[str, list[int]] = {}
    for one in sorted(partitions):
        facts = image.find_id(one.topic_id)
        if facts is not None:
            by_name.setdefault(facts.name, []).append(one.partition)
    return ClassicAssignment(
        partitions=[
            ClassicPartitions(topic=name, partitions=indexes)
            for name, indexes in sorted(by_name.items())
        ]
    )
